// The order of demand.
#include "memory/schedule/delay_forward.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/op.h"

namespace pal {
namespace {

class Demand {
 public:
  explicit Demand(const Program& program)
      : p_(program),
        readers_(program),
        waits_(program.nodes.size(), 0),
        missing_(program.nodes.size(), 0),
        done_(program.nodes.size(), 0) {
    choose();
    for (NodeId n : p_.nodes.ids()) {
      for (ValueId v : present(p_.node(n).in)) missing_[n] += made(v);
    }
  }

  std::vector<NodeId> order() {
    for (NodeId n : p_.nodes.ids()) {
      seen_ = n;
      // What an update writes may be read by nodes that wait.
      if (p_.node(n).op->writes_state) catch_up(n);
      if (!waits_[n] && !forward_not_ready(n)) bring(n);
    }
    catch_up(p_.node_count());
    return std::move(order_);
  }

 private:
  bool made(ValueId v) const { return p_.value(v).producer != kNone; }
  bool forward(NodeId n) const {
    return p_.node(n).phase == Phase::forward && !p_.node(n).op->writes_state;
  }
  // A forward node that does not wait itself, but reads one that does.
  bool forward_not_ready(NodeId n) const { return forward(n) && missing_[n] > 0; }

  // Forward nodes that some node of another phase needs, by another way than an output of the
  // program: the loss is not there for the gate's sake.
  void choose() {
    ByValue<char> output(p_.values.size(), 0);
    for (auto& out : p_.outputs) output[out.value] = 1;
    for (NodeId n = p_.node_count(); n-- > 0;) {
      if (forward(n) && !waits_[n]) continue;
      for (ValueId v : present(p_.node(n).in)) {
        if (!made(v) || output[v]) continue;
        const NodeId producer = p_.value(v).producer;
        if (forward(producer)) waits_[producer] = 1;
      }
    }
    // The gradient of the loss, a constant, is no reason to begin.
    for (NodeId n : p_.nodes.ids()) {
      const Node& node = p_.node(n);
      if (forward(n) || node.op->writes_state) continue;
      bool read = false, made_of_nodes = false;
      for (ValueId v : present(node.out)) read |= !readers_[v].empty();
      for (ValueId v : present(node.in)) made_of_nodes |= made(v);
      if (read && !made_of_nodes) waits_[n] = 1;
    }
  }

  // The node, after all that it needs, in the order of the program.
  void bring(NodeId n) {
    if (done_[n]) return;
    std::vector<NodeId> list{n};
    done_[n] = 1;
    for (size_t i = 0; i < list.size(); ++i) {
      for (ValueId v : present(p_.node(list[i]).in)) {
        const NodeId producer = p_.value(v).producer;
        if (producer != kNone && !std::exchange(done_[producer], 1)) list.push_back(producer);
      }
      for (NodeId w : p_.node(list[i]).waits) {  // exchanges keep their order
        if (!std::exchange(done_[w], 1)) list.push_back(w);
      }
    }
    std::sort(list.begin(), list.end());
    for (NodeId m : list) {
      append_ready(m);
      append(m);
    }
    append_ready(p_.node_count());
  }

  // What was passed over because it was not ready, and now is, of the nodes before `end`.
  void append_ready(NodeId end) {
    while (!ready_.empty() && *ready_.begin() < end) {
      const NodeId n = *ready_.begin();
      ready_.erase(ready_.begin());
      append(n);
    }
  }

  void append(NodeId n) {
    order_.push_back(n);
    for (ValueId v : present(p_.node(n).out)) {
      for (NodeId r : readers_[v]) {
        missing_[r] -= int(std::count(p_.node(r).in.begin(), p_.node(r).in.end(), v));
        const bool passed_over = r < seen_ && !done_[r] && !waits_[r];
        if (!passed_over || missing_[r] > 0) continue;
        done_[r] = 1;
        ready_.insert(r);
      }
    }
  }

  void catch_up(NodeId before) {
    for (; caught_up_ < before; ++caught_up_) bring(caught_up_);
  }

  const Program& p_;
  const Readers readers_;
  ByNode<char> waits_;   // run when it is needed
  ByNode<int> missing_;  // operands that are not made yet
  ByNode<char> done_;    // in order_, or about to be
  std::set<NodeId> ready_;
  std::vector<NodeId> order_;
  NodeId seen_ = 0, caught_up_ = 0;
};

}  // namespace

std::optional<Program> delay_forward(const Program& program, std::string* note) {
  const std::vector<NodeId> order = Demand(program).order();
  if (std::is_sorted(order.begin(), order.end())) return {};
  int late = 0;  // forward nodes that others of the program's have overtaken
  NodeId last = kNone;
  for (NodeId n : order) {
    late += n < last && program.node(n).phase == Phase::forward;
    last = std::max(last, n);
  }
  if (note) *note = std::to_string(late) + " forward nodes wait for the gradients that need them";
  return permuted(program, order);
}

}  // namespace pal
