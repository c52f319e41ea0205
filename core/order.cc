// Vector clocks of a program with several queues.
#include "core/order.h"

#include <algorithm>

namespace pal {

int queue_count(const Program& program) {
  int count = 1;
  for (const Node& node : program.nodes) count = std::max(count, int(node.queue) + 1);
  return count;
}

Order::Order(const Program& program) : program_(program), queues_(queue_count(program)) {
  if (queues_ == 1) return;  // the list is the order
  const size_t q_count = size_t(queues_);
  clock_.assign(program.nodes.size() * q_count, kNone);
  std::vector<NodeId> last(q_count, kNone);
  for (NodeId n = 0; n < program.node_count(); ++n) {
    const Node& node = program.node(n);
    NodeId* clock = &clock_[size_t(n) * q_count];
    auto join = [&](NodeId other) {
      const NodeId* theirs = &clock_[size_t(other) * q_count];
      for (size_t q = 0; q < q_count; ++q) clock[q] = std::max(clock[q], theirs[q]);
      NodeId& own = clock[program.node(other).queue];
      own = std::max(own, other);
    };
    if (last[node.queue] != kNone) join(last[node.queue]);
    for (NodeId wait : node.waits) join(wait);
    last[node.queue] = n;
  }
}

bool Order::before(NodeId first, NodeId second) const {
  if (queues_ == 1) return first < second;
  return first <= clock_[size_t(second) * size_t(queues_) + program_.node(first).queue];
}

std::vector<NodeId> last_on_others(const std::vector<NodeId>& before, QueueId own,
                                   const ByNode<QueueId>& queue, const ByNode<NodeId>& position) {
  std::vector<NodeId> last;
  for (const NodeId n : before) {
    if (queue[n] == own) continue;
    const auto same =
        std::find_if(last.begin(), last.end(), [&](NodeId l) { return queue[l] == queue[n]; });
    if (same == last.end()) {
      last.push_back(n);
    } else if (position[n] > position[*same]) {
      *same = n;
    }
  }
  std::sort(last.begin(), last.end(), [&](NodeId a, NodeId b) { return queue[a] < queue[b]; });
  return last;
}

}  // namespace pal
