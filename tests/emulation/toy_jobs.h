// Toy jobs over one pool of a GPU's memory, each in a thread with queues of its own: for the tests
// of shared pools.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "memory/run/program_set.h"
#include "memory/run/shared_pool.h"
#include "memory/share/corun_plan.h"
#include "memory/share/zico_plan.h"
#include "tests/emulation/fixture.h"
#include "tests/support/micro_batches.h"

namespace pal::test {

inline CompileOptions toy_options(int units = 400) {
  CompileOptions options;
  options.profile = DeviceProfile{};
  options.profile->name = "half full", options.profile->units = units;
  options.profile->f32 = options.profile->vector = 1e12, options.profile->memory = 1e11;
  options.profile->tile = 64, options.profile->piece = 300, options.profile->launch = 1e-6;
  return options;
}

struct ToyKind {
  ToySize size;
  bool graphs = true, poison = false;
  bool pair = false;            // two micro-batches side by side, on two queues
  int units = 400;              // multiprocessors: the fewer, the more nodes take all of them
  bool priced_by_pool = false;  // the set has no profile, its place in the pool has
  bool buckets = false;         // every other step is of half the batch
  bool late_updates = true;
};

// A training job: its steps, and what is left of them.
class ToyJob {
 public:
  ToyJob(const ToyKind& kind, PoolShare share = {})
      : set_(options_of(kind), device(kind), share_of(kind, std::move(share))), units_(kind.units) {
    step_ = kind.pair ? &set_.add_pair("step", toy_micro_batch(true, false, kind.size),
                                       toy_micro_batch(false, true, kind.size))
                      : &set_.add("step", toy_micro_batch(true, true, kind.size));
    parts_ = kind.pair ? 2 : 1;
    if (kind.buckets) {
      ToySize half = kind.size;
      half.batch /= 2;
      other_ = &set_.add("half", toy_micro_batch(true, true, half));
    }
    for (StateTensor& s : set_.state()) {
      float* x = reinterpret_cast<float*>(s.data);
      const bool zero = s.name.starts_with("optimizer");
      for (int64_t e = 0; e < s.spec.numel(); ++e) x[e] = zero ? 0 : float((e * 31) % 17 - 8) / 40;
    }
    if (kind.poison) step_->runner().set_options({.poison = true});
    if (kind.poison && other_) other_->runner().set_options({.poison = true});
  }

  void step(int i) {
    Executable& now = other_ && i % 2 ? *other_ : *step_;
    for (int part = 0; part < parts_; ++part) {
      look_at(part);
      const StepScalars scalars{
          .learning_rate = 0.01f, .step = i, .micro_batch = part, .seed_low = 7, .tokens = 9};
      std::memcpy(now.input("scalars"), &scalars, sizeof scalars);
      const int64_t numel = now.input_spec("x").numel();
      float* x = reinterpret_cast<float*>(now.input("x"));
      for (int64_t e = 0; e < numel; ++e) x[e] = float((e * 37 + 11 * i + 5 * part) % 101) / 101;
    }
    now.run();
    last_ = &now;
  }
  Bytes bytes() {
    Bytes out;
    for (StateTensor& s : set_.state()) out[s.name] = {s.data, s.data + s.spec.bytes()};
    for (int part = 0; part < parts_; ++part) {
      look_at(part);
      const auto* loss =
          reinterpret_cast<const std::byte*>((last_ ? last_ : step_)->output("loss"));
      out["loss" + std::to_string(part)] = {loss, loss + sizeof(float)};
    }
    return out;
  }
  StepShape shape() const { return shape_of(*step_); }
  StepShape shape_of_half() const { return shape_of(*other_); }
  ProgramSet& set() { return set_; }

 private:
  StepShape shape_of(Executable& step) const {
    const Compiled& c = step.compiled();
    return step_shape("step", c.program, c.storages, c.plan, *toy_options(units_).profile);
  }
  static CompileOptions options_of(const ToyKind& kind) {
    CompileOptions options = toy_options(kind.units);
    if (kind.priced_by_pool) options.profile.reset();
    options.late_updates = kind.late_updates;
    return options;
  }
  static PoolShare share_of(const ToyKind& kind, PoolShare share) {
    if (kind.priced_by_pool) {
      share.device = std::make_shared<const DeviceProfile>(*toy_options(kind.units).profile);
    }
    return share;
  }
  static Device device(const ToyKind& kind) {
    Device device = cuda_device();
    device.graphs = kind.graphs;
    return device;
  }
  void look_at(int part) {
    if (parts_ > 1) step_->look_at(part);
  }
  ProgramSet set_;
  Executable *step_, *other_ = nullptr, *last_ = nullptr;
  int parts_ = 1, units_;
};

// Jobs over a pool that is not yet in use.
struct ToyPool {
  std::vector<StepShape> halves;  // of jobs with buckets; a circle points to them
  std::shared_ptr<SharedPool> pool;
  std::vector<std::unique_ptr<ToyJob>> jobs;
  std::vector<StepShape> shapes;

  explicit ToyPool(const std::vector<ToyKind>& kinds)
      : pool(std::make_shared<SharedPool>(kinds.size(), cuda_device().accelerator)) {
    for (size_t j = 0; j < kinds.size(); ++j) {
      jobs.push_back(std::make_unique<ToyJob>(kinds[j], PoolShare{pool, JobId(j)}));
      shapes.push_back(jobs.back()->shape());
      if (kinds[j].buckets) halves.push_back(jobs.back()->shape_of_half());
    }
  }
  ~ToyPool() {
    for (size_t j = 0; j < jobs.size(); ++j) jobs[j].reset(), pool->leave(JobId(j));
  }
  std::vector<const StepShape*> pointers() const {
    std::vector<const StepShape*> all;
    for (const StepShape& shape : shapes) all.push_back(&shape);
    return all;
  }
  int64_t height(size_t j) const { return pool->needs(JobId(j)).height; }
  void use(const CorunWay& way) {
    PoolUse use{.way = way, .jobs = {}, .bytes = way.pool_bytes};
    for (size_t j = 0; j < jobs.size(); ++j) {
      use.jobs.push_back(JobId(j)), use.parts.push_back(height(j));
      use.bytes = std::max(use.bytes, height(j));
    }
    pool->use(std::move(use));
  }
  CorunWay way(CorunWay::Kind kind) const {
    CorunSearch search(pointers());
    if (kind == CorunWay::Kind::turns) return search.turns();
    const int64_t span = search.most_bytes() - search.least_bytes();
    if (kind == CorunWay::Kind::zico) {
      // Feature maps lie one behind the other, so that a step may be taller than as planned.
      for (int i = 4;; ++i) {
        if (auto way = zico_within(pointers(), search.least_bytes() + span * i / 8)) return *way;
      }
    }
    if (kind == CorunWay::Kind::tickets) {
      CorunWay way{.kind = kind};
      int64_t tallest = 0;
      for (size_t j = 0; j < jobs.size(); ++j) tallest = std::max(tallest, height(j));
      way.pool_bytes = tallest + tallest / 4;
      way.placement = place_apart(pointers(), way.pool_bytes);
      return way;
    }
    // Of circles one step for one, where there is such a one.
    std::optional<CorunWay> uneven;
    for (int i = 0; i <= 32; ++i) {
      auto way = search.side_by_side(search.least_bytes() + span * i / 32, CorunGoal::total);
      if (!way || way->kind != kind) continue;
      const auto& on_circle = way->circle.jobs;
      if (std::all_of(on_circle.begin(), on_circle.end(),
                      [](const JobOnCircle& job) { return job.steps == 1; })) {
        return *way;
      }
      uneven = std::move(way);
    }
    if (uneven) return *uneven;
    throw std::runtime_error("no budget makes that way");
  }
  // A circle of two jobs with buckets, with their halves on it too as far as there is room.
  CorunWay way_with_halves(double room) const {
    CorunWay way = this->way(CorunWay::Kind::circle);
    add_programs(way, {{&halves[0]}, {&halves[1]}}, int64_t(double(way.pool_bytes) * room));
    return way;
  }
  void run(const std::vector<int>& steps, int from = 0) {
    std::vector<std::jthread> threads;
    for (size_t j = 0; j < jobs.size(); ++j) {
      threads.emplace_back([&, j] {
        for (int i = 0; i < steps[j]; ++i) jobs[j]->step(from + i);
      });
    }
  }
};

struct DroppedWaits {
  int64_t of_pool = 0;  // waits of a run beyond those for inputs
  int64_t shown = 0;    // waits of all without which the bits change
};

class SharedGpuPool : public OnGpu {
 protected:
  // Steps are queued by one thread, a step of each job after the other: the same waits in each run.
  // Where its streams go first, or as it happens, a job without a wait has bytes that are still the
  // other's. `way`: of the pool that it is given.
  static DroppedWaits drop_waits(const ToyKind& a, const ToyKind& b,
                                 const std::function<CorunWay(const ToyPool&)>& way) {
    constexpr int kSteps = 2;
    const Bytes first = alone(a, kSteps), second = alone(b, kSteps);
    bool right = false;
    // How many waits there were more than it takes for one to be dropped.
    const auto run = [&](emulation::Order order, int64_t good) {
      emulation::settings() = {.order = order};
      ToyPool pool({a, b});
      pool.use(way(pool));
      emulation::settings().good_waits = good;
      for (int i = 0; i < kSteps; ++i) {
        for (auto& job : pool.jobs) job->step(i);
      }
      const int64_t left = emulation::settings().good_waits;
      right = first_other(first, pool.jobs[0]->bytes()) == "" &&
              first_other(second, pool.jobs[1]->bytes()) == "";
      return left;
    };
    constexpr int64_t kAll = 1 << 20;
    const int64_t waits = kAll - run(emulation::Order::forward, kAll);
    EXPECT_TRUE(right);
    // A step waits twice for its inputs; all other waits are the pool's.
    DroppedWaits out{.of_pool = waits - int64_t(2) * 2 * kSteps};
    // In both directions, then as it happens, until as many have shown as are the pool's.
    std::vector<bool> shows(size_t(waits), false);
    constexpr int kRounds = 40;
    for (int round = 0; round < kRounds && out.shown < out.of_pool; ++round) {
      for (int64_t k = 0; k < waits; ++k) {
        if (shows[size_t(k)]) continue;
        run(round == 0   ? emulation::Order::forward
            : round == 1 ? emulation::Order::backward
                         : emulation::Order::shuffled,
            k);
        shows[size_t(k)] = !right, out.shown += !right;
      }
    }
    emulation::settings() = {};
    return out;
  }
  static Bytes alone(const ToyKind& kind, int steps) {
    ToyJob job(kind);
    for (int i = 0; i < steps; ++i) job.step(i);
    return job.bytes();
  }
};

constexpr CorunWay::Kind kWays[] = {CorunWay::Kind::turns, CorunWay::Kind::beside,
                                    CorunWay::Kind::circle, CorunWay::Kind::tickets,
                                    CorunWay::Kind::zico};
const ToyKind kSmall{.size = {.layers = 5, .batch = 16, .width = 24}};
const ToyKind kLarge{.size = {.layers = 8, .batch = 24, .width = 24}};

}  // namespace pal::test
