// Jobs in groups, each with a pool and a rule of its own: no group knows of another. Zico's
// proposal for more than two jobs (Lim et al. 2021, section 4): pairs, each with its part of the
// budget.
#pragma once
#include <memory>
#include <vector>

#include "memory/share/gate.h"

namespace pal {

// `groups`: by group, who is in it, in the order in which its gate counts jobs. Every job is in
// one.
std::unique_ptr<PoolGate> grouped_gate(std::vector<std::unique_ptr<PoolGate>> gates,
                                       const std::vector<std::vector<JobId>>& groups);

}  // namespace pal
