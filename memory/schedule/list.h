// List schedules: an order of the nodes built one node at a time, by a rule, from the start of the
// step or from its end.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/schedule/order_graph.h"

namespace pal {

struct ListRule {
  // Which of the nodes that are ready comes next.
  enum class Pick : uint8_t {
    guide,    // the first in a given order
    depth,    // the one that became ready last
    breadth,  // the one that became ready first
    bytes,    // the one that leaves the fewest bytes alive
  } pick = Pick::guide;
  // From the end of the step: a node is ready when all that depends on it has its place, and bytes
  // are counted the other way round: a node frees what it makes, and brings to life what it reads.
  bool from_end = false;
  // Before any other, a node that leaves at most `slack` more bytes alive than there were: from the
  // start, what frees runs at once; from the end, what allocates runs as late as it can.
  bool eager = false;
  int64_t slack = 0;
};

// O((nodes + touches) log nodes). `guide` is an order of the graph's.
std::vector<NodeId> list_schedule(const OrderGraph& graph, const ListRule& rule,
                                  const std::vector<NodeId>& guide);

// Made when it is needed, and not before: recomputed and decoded values.
inline bool comes_late(const Node& node) {
  return node.phase == Phase::recompute || node.phase == Phase::decode;
}
// The same order, but such nodes each right before the first node that waits for it.
std::vector<NodeId> with_late_clones(const OrderGraph& graph, const std::vector<NodeId>& order);

}  // namespace pal
