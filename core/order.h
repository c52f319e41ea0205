// Which nodes are certain to have finished before another begins, when queues run side by side.
#pragma once
#include <vector>

#include "core/program.h"

namespace pal {

// Vector clocks over the queues: program order within a queue, and the waits between them.
class Order {
 public:
  explicit Order(const Program& program);

  // True when `first` has finished, whatever the timing, before `second` starts.
  bool before(NodeId first, NodeId second) const;
  int queues() const { return queues_; }

 private:
  const Program& program_;
  int queues_;
  std::vector<NodeId> clock_;  // [node][queue]: the last node of that queue known to be done
};

int queue_count(const Program& program);

// Of the nodes that must have ended before a node of queue `own` begins, the last on each other
// queue: those before it there have ended then. `position`: of every node in the order that queues
// follow.
std::vector<NodeId> last_on_others(const std::vector<NodeId>& before, QueueId own,
                                   const ByNode<QueueId>& queue, const ByNode<NodeId>& position);

}  // namespace pal
