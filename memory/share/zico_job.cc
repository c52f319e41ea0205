// Feature maps and the rest of a step.
#include "memory/share/zico_job.h"

#include <algorithm>
#include <utility>

namespace pal {
namespace {

// The first moment at which most sharable bytes are alive.
int64_t peak_moment(const StepShape& shape) {
  std::vector<int64_t> change(size_t(shape.moments()) + 1, 0);
  for (const SharableBuffer& b : shape.buffers) {
    change[size_t(b.life.begin)] += b.bytes, change[size_t(b.life.end)] -= b.bytes;
  }
  int64_t alive = 0, most = 0, at = 0;
  for (int64_t m = 0; m < int64_t(change.size()); ++m) {
    alive += change[size_t(m)];
    if (alive > most) most = alive, at = m;
  }
  return at;
}

}  // namespace

std::vector<char> feature_maps(const StepShape& shape) {
  const int64_t peak = peak_moment(shape), node_done = peak / 2 * 2 + 1;
  std::vector<char> out;
  for (const SharableBuffer& b : shape.buffers) {
    out.push_back(b.life.begin <= peak && b.life.end > node_done);
  }
  return out;
}

int64_t ZicoJob::count() const {
  int64_t n = 0;
  for (const RegionUse& use : regions.uses) n += int64_t(use.takes.size());
  return n;
}

ZicoJob zico_job(const StepShape& shape, int64_t region_bytes) {
  const std::vector<char> is_map = feature_maps(shape);
  StepShape maps, rest;
  maps.tick = rest.tick = shape.tick;
  for (size_t i = 0; i < is_map.size(); ++i) {
    (is_map[i] ? maps : rest).buffers.push_back(shape.buffers[i]);
  }
  std::stable_sort(
      maps.buffers.begin(), maps.buffers.end(),
      [](const SharableBuffer& a, const SharableBuffer& b) { return a.life.begin < b.life.begin; });
  PoolOffsets offset;
  ZicoJob job{.local_bytes = shape.own_bytes + place_longest_first(rest, offset),
              .region_bytes = region_bytes,
              .regions = {}};
  // All are alive when the peak's node is done, so that each lies behind the one before.
  offset.assign(1, 0);
  for (const SharableBuffer& b : maps.buffers) offset.push_back(offset.back() + b.bytes);
  offset.pop_back();
  job.regions = region_program(maps, offset, region_bytes);
  return job;
}

}  // namespace pal
