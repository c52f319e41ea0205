// What nodes wait for where there are several queues.
#pragma once
#include <vector>

#include "core/program.h"

namespace pal {

// Of the nodes that must have ended before a node of queue `own` begins, the last on each other
// queue: those before it there have ended then. `position`: of every node in the order that queues
// follow.
std::vector<NodeId> last_on_others(const std::vector<NodeId>& before, QueueId own,
                                   const ByNode<QueueId>& queue, const ByNode<NodeId>& position);

}  // namespace pal
