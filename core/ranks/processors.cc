// Masks of processors, shared among the ranks.
#include "core/ranks/processors.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <vector>

namespace pal {
namespace {

RankProcessors of_this_process(int machine) {
  RankProcessors own{.machine = machine};
  // Where threads are bound (OMP_PROC_BIND), this one's mask is one place of those that there are.
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(size_t(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    for (const int p : ids) {
      if (p < RankProcessors::kMost) own.add(p);
    }
  }
  if (omp_get_num_places() > 0) return own;
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
  return own_processors(share_among(group, of_this_process(group.machine())), group.rank());
}

}  // namespace pal
