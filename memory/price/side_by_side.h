// Queues of compute side by side on one device, as time would go: the model of
// memory/share/simulate.h, for one program whose queues wait for each other. Behind pairs of
// micro-batches (memory/overlap), branches on two queues (memory/queues), and predict().
#pragma once
#include <vector>

#include "core/program.h"
#include "memory/price/demand.h"
#include "memory/storages/storages.h"

namespace pal {

// Of every node; with what was measured of it, where device.times has that. Without `storages`
// views and stacks count as in place.
ByNode<NodeDemand> demands_of(const Program& program, const DeviceProfile& device,
                              const Storages* storages = nullptr);

// Whether nodes that are neither copies nor exchanges stand in several queues.
bool computes_side_by_side(const Program& program);

struct SideBySide {
  double ms = 0;              // until the last node is done
  ByNode<double> end_ms;      // when each is done
  std::vector<NodeId> order;  // in which nodes begin: each behind all that it waits for
  // What has ended on the other queue when a node begins, the last of it; kNone: nothing. (Of two
  // queues.)
  ByNode<NodeId> seen;
};

// Each queue runs its nodes in their order, each once what it waits for is done. A node launches,
// and then works; where the nodes at work together ask for more than all of a resource, those that
// use it work slower by that factor. ProgramError where everybody waits.
SideBySide run_side_by_side(const Program& program, const ByNode<NodeDemand>& demands);

// One behind the other, whatever the queues.
double one_by_one_ms(const ByNode<NodeDemand>& demands);
// No way to run them takes less: the longest queue, or the largest sum of what is asked of a
// resource.
double least_ms(const Program& program, const ByNode<NodeDemand>& demands);

}  // namespace pal
