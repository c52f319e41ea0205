// One node a queue.
#include "memory/passes/queue_waits.h"

#include <algorithm>
#include <utility>

namespace pal {

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
