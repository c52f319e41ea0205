// What passes share that walk a large program many times: who reads what in one flat table, and a
// program to fill with nodes.
#pragma once
#include <numeric>
#include <span>
#include <vector>

#include "core/program.h"

namespace pal {

// As readers_of, in two arrays in place of a list for each value.
class FlatReaders {
 public:
  explicit FlatReaders(const Program& program) : begin_(program.values.size() + 1, 0) {
    each_read(program, [&](ValueId v, NodeId) { ++begin_[size_t(v) + 1]; });
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    nodes_.resize(begin_.back());
    std::vector<size_t> end(begin_.begin(), begin_.end() - 1);
    each_read(program, [&](ValueId v, NodeId n) { nodes_[end[size_t(v)]++] = n; });
  }
  // In schedule order, each node once.
  std::span<const NodeId> operator[](size_t value) const {
    return {nodes_.data() + begin_[value], begin_[value + 1] - begin_[value]};
  }

 private:
  // In schedule order, a node that reads a value twice once.
  template <class Use>
  static void each_read(const Program& program, Use use) {
    std::vector<NodeId> last(program.values.size(), kNone);
    for (NodeId n = 0; n < program.node_count(); ++n) {
      for (ValueId v : program.node(n).in) {
        if (v == kNone || last[size_t(v)] == n) continue;
        last[size_t(v)] = n;
        use(v, n);
      }
    }
  }
  std::vector<size_t> begin_;  // by value, into nodes_
  std::vector<NodeId> nodes_;
};

// All but the nodes.
inline Program without_nodes(const Program& program) {
  return {.values = program.values, .nodes = {}, .state = program.state,
          .inputs = program.inputs, .outputs = program.outputs, .scopes = program.scopes};
}

}  // namespace pal
