// Masks of processors, shared among the ranks.
#include "core/ranks/processors.h"

#include <sched.h>

#include <algorithm>

namespace pal {
namespace {

RankProcessors of_this_thread(int machine) {
  RankProcessors own{.machine = machine};
  cpu_set_t sets[RankProcessors::kMost / CPU_SETSIZE] = {};
  if (sched_getaffinity(0, sizeof sets, sets) != 0) sets[0] = {{1}};
  for (int p = 0; p < RankProcessors::kMost; ++p) {
    if (CPU_ISSET_S(size_t(p), sizeof sets, sets)) own.add(p);
  }
  return own;
}

}  // namespace

int own_processors(const std::vector<RankProcessors>& ranks, int rank) {
  const RankProcessors& own = ranks[size_t(rank)];
  double parts = 0;
  for (int p = 0; p < RankProcessors::kMost; ++p) {
    if (!own.has(p)) continue;
    parts += 1.0 / double(std::count_if(ranks.begin(), ranks.end(), [&](const RankProcessors& r) {
               return r.machine == own.machine && r.has(p);
             }));
  }
  return std::max(1, int(parts + 1e-6));  // three thirds are one
}

int own_processors(Group& group) {
  return own_processors(share_among(group, of_this_thread(group.machine())), group.rank());
}

}  // namespace pal
