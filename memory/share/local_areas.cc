// Two placements, one upon the other.
#include "memory/share/local_areas.h"

#include <algorithm>

#include "core/spec.h"

namespace pal {

bool may_be_local(const SharableBuffer& buffer) {
  return buffer.role == Role::workspace || buffer.role == Role::gradient_map;
}

PoolPlacement place_with_local(const Circle& circle) {
  std::vector<StepShape> shared(circle.jobs.size());
  Circle rest = circle;
  PoolPlacement out;
  int64_t base = 0;
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    const StepShape& shape = *circle.jobs[j].shape;
    StepShape local;
    shared[j].name = local.name = shape.name, shared[j].tick = local.tick = shape.tick;
    for (const SharableBuffer& b : shape.buffers) {
      (may_be_local(b) ? local : shared[j]).buffers.push_back(b);
    }
    rest.jobs[j].shape = &shared[j];
    PoolOffsets of_local;
    const int64_t height = place_longest_first(local, of_local);
    auto& offset = out.offset.emplace_back();
    auto next = of_local.begin();
    for (const SharableBuffer& b : shape.buffers) {
      offset.push_back(may_be_local(b) ? base + *next++ : 0);
    }
    base += align_up(height);
  }
  const PoolPlacement above = place_on(rest);
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    auto next = above.offset[j].begin();
    const auto& buffers = circle.jobs[j].shape->buffers;
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (!may_be_local(buffers[i])) out.offset[j][i] = base + *next++;
    }
  }
  out.height = base + (shared.empty() ? 0 : above.height);
  out.lower_bound = base + above.lower_bound;
  return out;
}

}  // namespace pal
