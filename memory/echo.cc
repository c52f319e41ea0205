// The regions of Algorithm 1, and their pruning as one minimum cut.
#include "memory/echo.h"

#include <algorithm>

#include "core/prepare.h"
#include "memory/bit_stash.h"
#include "memory/echo_cut.h"

namespace pal {
namespace {

class Echo {
 public:
  Echo(const StepView& view, const EchoTrial& trial)
      : view_(view), p_(view.program), trial_(trial),
        candidate_(p_.nodes.size(), 0), first_(view.first_use), last_(view.last_use) {}

  Choice run() {
    expand();
    build();
    const std::vector<char> source = cut_.source_side();
    Choice choice(p_.values.size(), 0);
    for (size_t v = 0; v < choice.size(); ++v) {
      if (!target(ValueId(v))) continue;
      const int made = class_[size_t(view_.storage[v])] + 1;
      choice[v] = candidate_[size_t(p_.values[v].producer)] && source[size_t(made)];
    }
    return choice;
  }

 private:
  // Needed by the backward pass, if everything that can be is recomputed.
  bool target(ValueId v) const {
    return v != kNone && !view_.pinned[size_t(v)] && first_[size_t(v)] != kNone;
  }

  // From the last forward node to the first. first_ and last_ become the times at which a value is
  // read after the forward phase by gradients and by candidates' clones, which run at their own
  // first use.
  void expand() {
    for (NodeId n = p_.node_count(); n-- > 0;) {
      const Node& node = p_.node(n);
      if (node.phase != Phase::forward) continue;
      NodeId first = kNone, last = kNone;
      for (ValueId v : node.out) {
        if (!target(v)) continue;
        first = first == kNone ? first_[size_t(v)] : std::min(first, first_[size_t(v)]);
        last = std::max(last, last_[size_t(v)]);
      }
      if (first == kNone || view_.heavy[size_t(n)] || !view_.clonable[size_t(n)]) continue;
      if (last - first > trial_.near && !view_.from_pinned(n)) continue;
      candidate_[size_t(n)] = 1;
      for (ValueId v : node.in) {
        if (view_.stays(v)) continue;
        NodeId &f = first_[size_t(v)], &l = last_[size_t(v)];
        f = f == kNone ? first : std::min(f, first);
        l = std::max(l, first);
      }
    }
  }

  // A storage is a pair of vertices, needed -> made again, joined by its bytes: to cut there is to
  // stash it. Made again means that the candidates which make it run again: they need their
  // operands, and cost a little themselves.
  void build() {
    class_.assign(view_.storage_bytes.size(), kNone);
    node_.assign(p_.nodes.size(), kNone);
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (!target(ValueId(v))) continue;
      const size_t storage = size_t(view_.storage[v]);
      if (class_[storage] == kNone) {
        class_[storage] = cut_.add_vertices(2);
        cut_.add_edge(class_[storage], class_[storage] + 1, view_.storage_bytes[storage]);
      }
      const int needed = class_[storage];
      if (view_.first_use[v] != kNone) cut_.add_edge(MinCut::kSource, needed, without(ValueId(v)));
      const NodeId producer = p_.values[v].producer;
      const int runs = candidate_[size_t(producer)] ? vertex_of(producer) : MinCut::kSink;
      cut_.add_edge(needed + 1, runs, MinCut::kInfinite);
    }
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      if (node_[size_t(n)] == kNone) continue;
      for (ValueId v : p_.node(n).in) {
        if (!view_.stays(v)) {
          cut_.add_edge(node_[size_t(n)], class_[size_t(view_.storage[size_t(v)])],
                        MinCut::kInfinite);
        }
      }
    }
  }

  // What it costs gradients to do without the value: a bit for each element where they ask no more
  // of it. (If something else needs it whole, it is there anyway.)
  int64_t without(ValueId v) const {
    const TensorSpec& spec = p_.value(v).spec;
    if (!trial_.bits || spec.dtype == DType::bit || spec.layout || bit_bytes(spec) >= spec.bytes() ||
        later_reads(p_, view_.readers, v).kind != Reads::Kind::predicate) {
      return MinCut::kInfinite;
    }
    const double moved = double(spec.bytes() + bit_bytes(spec));
    return bit_bytes(spec) + 1 + int64_t(moved / trial_.exchange);
  }

  int vertex_of(NodeId n) {
    int& vertex = node_[size_t(n)];
    if (vertex != kNone) return vertex;
    const Node& node = p_.node(n);
    const Cost cost =
        cost_of(*node.op, specs_of(p_, node.in), specs_of(p_, node.out), node.attrs);
    // What could be moved meanwhile, where arithmetic takes longer.
    const double moved = std::max(cost.bytes, cost.flops / trial_.balance);
    vertex = cut_.add_vertices(1);
    cut_.add_edge(vertex, MinCut::kSink,
                  1 + int64_t((moved + trial_.launch_bytes) / trial_.exchange));
    return vertex;
  }

  const StepView& view_;
  const Program& p_;
  const EchoTrial& trial_;
  std::vector<char> candidate_;         // by node
  std::vector<NodeId> first_, last_;    // by value
  std::vector<int> class_, node_;       // vertices by storage and by node
  MinCut cut_;
};

}  // namespace

Choice choose_echo(const StepView& view, const EchoTrial& trial) { return Echo(view, trial).run(); }

}  // namespace pal
