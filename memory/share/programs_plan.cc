// Other programs on a circle that was chosen for one of each job.
#include <algorithm>

#include "memory/share/corun_plan.h"

namespace pal {
namespace {

// Of all programs together: first fit compares each with each.
constexpr size_t kMostBuffers = 40000;

using Others = std::vector<std::vector<const StepShape*>>;

// The rarest of the job that has most; false where there is none.
bool drop_one(Others& others) {
  if (others.empty()) return false;
  const auto most =
      std::max_element(others.begin(), others.end(),
                       [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (most->empty()) return false;
  most->pop_back();
  return true;
}

size_t buffers_of(const Circle& circle, const Others& others) {
  size_t sum = 0;
  for (const JobOnCircle& job : circle.jobs) sum += job.shape->buffers.size();
  for (const auto& of_job : others) {
    for (const StepShape* other : of_job) sum += other->buffers.size();
  }
  return sum;
}

}  // namespace

void add_programs(CorunWay& way, const std::vector<std::vector<const StepShape*>>& given,
                  int64_t pool_bytes) {
  if (way.kind != CorunWay::Kind::circle) return;
  Others others = given;
  for (size_t j = 0; j < others.size(); ++j) {
    std::erase_if(others[j], [&](const StepShape* other) {
      return other->ticks() > way.circle.jobs[j].lasts || other->ticks() < 1;
    });
  }
  while (buffers_of(way.circle, others) > kMostBuffers) {
    if (!drop_one(others)) return;
  }
  while (std::any_of(others.begin(), others.end(), [](const auto& o) { return !o.empty(); })) {
    Circle circle = way.circle;
    for (size_t j = 0; j < others.size(); ++j) circle.jobs[j].others = others[j];
    // No placement is lower than what is alive.
    PoolPlacement placement;
    if (most_alive(circle) <= pool_bytes) placement = place_on(circle, pool_bytes);
    if (placement.offset.empty() || placement.height > pool_bytes) {
      drop_one(others);
      continue;
    }
    check_placement(circle, placement);
    way.program_waits = program_waits_of(circle, placement, way.paced);
    check_waits(circle, way.program_waits);
    way.has_local = false;
    way.circle = std::move(circle), way.placement = std::move(placement);
    way.pool_bytes = std::max(way.pool_bytes, way.placement.height);
    return;
  }
}

}  // namespace pal
