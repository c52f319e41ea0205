// Which regions of a pool a step takes, and when.
#include <algorithm>
#include <map>
#include <utility>

#include "core/spec.h"
#include "memory/share/gate.h"

namespace pal {

int64_t region_bytes_of(int64_t pool_bytes) {
  constexpr int64_t kMiB = 1 << 20;
  for (int64_t bytes = 64 * kMiB; bytes >= 2 * kMiB; bytes /= 2) {
    if ((bytes - pool_bytes % bytes) % bytes <= pool_bytes / 100) return bytes;
  }
  return align_up(std::max<int64_t>(pool_bytes / 100, 1));
}

RegionProgram region_program(const StepShape& shape, const PoolOffsets& offset,
                             int64_t region_bytes) {
  std::map<int64_t, RegionUse> uses;
  std::map<int32_t, std::vector<std::pair<int64_t, int>>> changes;  // by region: storages in it
  for (size_t i = 0; i < offset.size(); ++i) {
    const SharableBuffer& b = shape.buffers[i];
    for (int64_t r = offset[i] / region_bytes; r * region_bytes < offset[i] + b.bytes; ++r) {
      changes[int32_t(r)].push_back({b.life.begin, 1});
      changes[int32_t(r)].push_back({b.life.end, -1});
    }
  }
  for (auto& [region, list] : changes) {
    std::sort(list.begin(), list.end());  // a node's start comes before it is done
    int alive = 0;
    for (auto [moment, change] : list) {
      if (alive == 0) uses[moment].takes.push_back(region);
      alive += change;
      if (alive == 0) uses[moment].gives.push_back(region);
    }
  }
  RegionProgram out{.moments = shape.moments(), .uses = {}};
  for (auto& [moment, use] : uses) {
    use.moment = moment;
    out.uses.push_back(std::move(use));
  }
  return out;
}

RegionProgram region_holds(const RegionProgram& program) {
  std::map<int32_t, std::pair<int64_t, int64_t>> holds;  // first taken, last given
  for (const RegionUse& use : program.uses) {
    for (const int32_t r : use.takes) holds.try_emplace(r, use.moment, use.moment);
    for (const int32_t r : use.gives) holds[r].second = use.moment;
  }
  std::map<int64_t, RegionUse> uses;
  for (const auto& [region, held] : holds) {
    uses[held.first].takes.push_back(region), uses[held.second].gives.push_back(region);
  }
  RegionProgram out{.moments = program.moments, .uses = {}};
  for (auto& [moment, use] : uses) {
    use.moment = moment;
    out.uses.push_back(std::move(use));
  }
  return out;
}

}  // namespace pal
