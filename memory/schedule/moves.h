// Local search where it counts: nodes around the peak change places until its bytes fall no more.
#pragma once
#include <vector>

#include "memory/schedule/order_graph.h"
#include "memory/schedule/order_peak.h"

namespace pal {

struct MovesEffect {
  int tried = 0, made = 0;
};

// For what is alive at the peak, largest first: what makes it moves to after the peak, with all
// that follows from it by then; or its last readers move to before the peak, with all that they
// wait for; in both directions also together with neighbours that come cheaper along than left
// behind. A move is kept when the peak falls, or when fewer nodes run at it. At most `tries` orders
// are looked at.
MovesEffect move_at_peak(const OrderGraph& graph, OrderPeak& peak, std::vector<NodeId>& order,
                         int tries);

}  // namespace pal
