// Jobs for the tests of a shared pool: their steps, alone and with their memory in the pool.
#pragma once
#include <memory>
#include <vector>

#include "memory/run/shared_plan.h"
#include "tests/memory/running.h"

namespace pal::test {

inline DeviceProfile card() {
  DeviceProfile profile;
  profile.f32 = profile.vector = 1e9, profile.memory = 1e9, profile.launch = 1e-6;
  return profile;
}

// A chain forward and its mirror backward: every value of the first half is read in the second.
inline Program hourglass(int depth, int64_t n) {
  Builder b;
  Val x = b.input("x0", {Shape{n}});
  Val w = b.state("w0", {Shape{n}}, Role::weight);
  std::vector<Val> kept{plus(x, w)};
  for (int i = 0; i < depth; ++i) kept.push_back(reverse(affine(kept.back(), 0.5f)));
  b.output("loss", sum(kept.back()));
  Val g = reverse(kept.back());
  for (int i = depth; i >= 0; --i) g = plus(reverse(g), kept[size_t(i)]);
  update(w, g);
  b.output("g", affine(g));
  return b.take();
}

struct PooledJob {
  Ready ready;
  Plan plan{make_plan(ready.program, ready.storages, ready.layout)};
  StepShape shape{step_shape("job", ready.program, ready.storages, plan, card())};
  Arena arena;

  explicit PooledJob(Program p) : ready(std::move(p)) {}
  int64_t height() const { return shape.alone_bytes - shape.own_bytes; }
};

using PooledJobs = std::vector<std::unique_ptr<PooledJob>>;

inline std::vector<const StepShape*> shapes_of(const PooledJobs& jobs) {
  std::vector<const StepShape*> shapes;
  for (const auto& job : jobs) shapes.push_back(&job->shape);
  return shapes;
}

inline CorunWay tickets(const PooledJobs& jobs, int64_t bytes) {
  CorunWay way{.kind = CorunWay::Kind::tickets, .pool_bytes = bytes};
  way.placement = place_apart(shapes_of(jobs), bytes);
  return way;
}

inline CorunWay turns(int64_t bytes) {
  return {.kind = CorunWay::Kind::turns, .pool_bytes = bytes};
}

inline std::vector<std::unique_ptr<SharedPlan>> memories_of(const PooledJobs& jobs,
                                                            SharedPool& pool) {
  std::vector<std::unique_ptr<SharedPlan>> memories;
  for (size_t j = 0; j < jobs.size(); ++j) {
    memories.push_back(std::make_unique<SharedPlan>(
        jobs[j]->ready.storages, jobs[j]->plan, jobs[j]->shape, jobs[j]->arena, pool, JobId(j)));
  }
  return memories;
}

// Steps of one job, whose memory lies in the pool.
inline Results steps_of(const PooledJobs& jobs, SharedPlan& memory, size_t j, int steps) {
  return run_with(jobs[j]->ready, memory, steps, {.poison = true});
}

inline PooledJobs two_jobs() {
  PooledJobs jobs;
  jobs.push_back(std::make_unique<PooledJob>(hourglass(16, 3000)));
  jobs.push_back(std::make_unique<PooledJob>(hourglass(9, 2000)));
  return jobs;
}

}  // namespace pal::test
