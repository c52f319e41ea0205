// A list schedule: which node begins next where exchanges do not hold up the rest.
#include "memory/price/exchange_times.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

#include "core/op.h"

namespace pal {
namespace {

bool is_exchange(const Node& node) { return node.op->collective; }

class OwnQueue {
 public:
  OwnQueue(const Program& program, const ByNode<double>& node_ms)
      : program_(program),
        node_ms_(node_ms),
        waiting_(program.nodes.size(), 0),
        followers_(program.nodes.size()) {
    for (NodeId n : program.nodes.ids()) {
      const Node& node = program.node(n);
      if (lanes_.size() <= size_t(node.queue) + 1) lanes_.resize(size_t(node.queue) + 2);
    }
    add_edges();
  }

  double step_ms() {
    for (NodeId n : program_.nodes.ids()) {
      if (waiting_[n] == 0) lane_of(n).ready.push(n);
    }
    double now = 0;
    while (Lane* const next = first_to_end(now)) {
      now = next->ends;
      const NodeId done = next->running;
      next->running = kNone;
      for (const NodeId n : followers_[done]) {
        if (--waiting_[n] == 0) lane_of(n).ready.push(n);
      }
    }
    return now;
  }

 private:
  using Earliest = std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>>;
  struct Lane {
    Earliest ready;
    NodeId running = kNone;
    double ends = 0;
  };

  // The last lane is the exchanges'.
  Lane& lane_of(NodeId n) {
    const Node& node = program_.node(n);
    return is_exchange(node) ? lanes_.back() : lanes_[node.queue];
  }

  Lane* first_to_end(double now) {
    Lane* first = nullptr;
    for (Lane& lane : lanes_) {
      if (lane.running == kNone && !lane.ready.empty()) {
        lane.running = lane.ready.top(), lane.ready.pop();
        lane.ends = now + node_ms_[lane.running];
      }
      if (lane.running != kNone && (!first || lane.ends < first->ends)) first = &lane;
    }
    return first;
  }

  void follow(NodeId before, NodeId n) {
    followers_[before].push_back(n);
    ++waiting_[n];
  }

  // A node follows the makers of its operands and those that it waits for; an update, the readers
  // of what it writes. Queues beside the first keep their order.
  void add_edges() {
    ByValue<std::vector<NodeId>> readers(program_.values.size());
    std::vector<NodeId> last(lanes_.size(), kNone);
    for (NodeId n : program_.nodes.ids()) {
      const Node& node = program_.node(n);
      for (const ValueId v : present(node.in)) {
        if (const NodeId maker = program_.value(v).producer; maker != kNone) follow(maker, n);
      }
      for (const NodeId other : node.waits) follow(other, n);
      for (size_t i = 0; node.op->writes_state && i < node.out.size(); ++i) {
        const ValueId old = node.in[size_t(written_operand(*node.op, int(i)))];
        if (old == kNone) continue;
        for (const NodeId reader : readers[old]) follow(reader, n);
      }
      for (const ValueId v : present(node.in)) readers[v].push_back(n);
      if (node.queue == 0 || is_exchange(node)) continue;
      NodeId& before = last[node.queue];
      if (before != kNone) follow(before, n);
      before = n;
    }
  }

  const Program& program_;
  const ByNode<double>& node_ms_;
  ByNode<int> waiting_;  // for how many others
  ByNode<std::vector<NodeId>> followers_;
  std::vector<Lane> lanes_;
};

}  // namespace

ExchangeTimes exchange_times(const Program& program, const Prediction& times) {
  ExchangeTimes out;
  ByNode<double> others = times.node_ms;
  for (NodeId n : program.nodes.ids()) {
    if (!is_exchange(program.node(n))) continue;
    ++out.count, out.ms += times.node_ms[n], others[n] = 0;
  }
  out.own_queue_step_ms = times.step_ms;
  if (out.count == 0) return out;
  const double without = step_ms_of(program, others);
  out.exposed_ms = std::max(0.0, step_ms_of(program, times.node_ms) - without);
  out.own_queue_step_ms = OwnQueue(program, times.node_ms).step_ms();
  out.own_queue_exposed_ms = std::max(0.0, out.own_queue_step_ms - without);
  return out;
}

}  // namespace pal
