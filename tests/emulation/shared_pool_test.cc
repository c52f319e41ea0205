// Jobs that share a pool of a GPU's memory, emulated or (tests/gpu) real: each in a thread with
// queues of its own, the bits of each alone in every order of the streams, and a wait of a queue
// that is dropped shows.
#include "memory/run/shared_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "memory/run/program_set.h"
#include "memory/share/corun_plan.h"
#include "tests/emulation/fixture.h"
#include "tests/support/micro_batches.h"

namespace pal::test {
namespace {

using emulation::Order;

CompileOptions options() {
  CompileOptions options;
  options.profile = DeviceProfile{};
  options.profile->name = "half full", options.profile->units = 400;
  options.profile->f32 = options.profile->vector = 1e12, options.profile->memory = 1e11;
  options.profile->tile = 64, options.profile->launch = 1e-6;
  return options;
}

struct Kind {
  ToySize size;
  bool graphs = true, poison = false;
};

// A training job: its steps, and what is left of them.
class Job {
 public:
  Job(const Kind& kind, PoolShare share = {}) : set_(options(), device(kind), std::move(share)) {
    step_ = &set_.add("step", toy_micro_batch(true, true, kind.size));
    for (StateTensor& s : set_.state()) {
      float* x = reinterpret_cast<float*>(s.data);
      const bool zero = s.name.starts_with("optimizer");
      for (int64_t e = 0; e < s.spec.numel(); ++e) x[e] = zero ? 0 : float((e * 31) % 17 - 8) / 40;
    }
    if (kind.poison) step_->runner().set_options({.poison = true});
  }

  void step(int i) {
    const StepScalars scalars{
        .learning_rate = 0.01f, .step = i, .micro_batch = 0, .seed_low = 7, .tokens = 9};
    std::memcpy(step_->input("scalars"), &scalars, sizeof scalars);
    const int64_t numel = step_->input_spec("x").numel();
    float* x = reinterpret_cast<float*>(step_->input("x"));
    for (int64_t e = 0; e < numel; ++e) x[e] = float((e * 37 + 11 * i) % 101) / 101;
    step_->run();
  }
  Bytes bytes() {
    Bytes out;
    for (StateTensor& s : set_.state()) out[s.name] = {s.data, s.data + s.spec.bytes()};
    const auto* loss = reinterpret_cast<const std::byte*>(step_->output("loss"));
    out["loss"] = {loss, loss + sizeof(float)};
    return out;
  }
  StepShape shape() const {
    const Compiled& c = step_->compiled();
    return step_shape("step", c.program, c.storages, c.plan, *options().profile);
  }
  ProgramSet& set() { return set_; }

 private:
  static Device device(const Kind& kind) {
    Device device = cuda_device();
    device.graphs = kind.graphs;
    return device;
  }
  ProgramSet set_;
  Executable* step_;
};

// Jobs over a pool that is not yet in use.
struct Pool {
  std::shared_ptr<SharedPool> pool;
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<StepShape> shapes;

  explicit Pool(const std::vector<Kind>& kinds)
      : pool(std::make_shared<SharedPool>(kinds.size(), cuda_device().accelerator)) {
    for (size_t j = 0; j < kinds.size(); ++j) {
      jobs.push_back(std::make_unique<Job>(kinds[j], PoolShare{pool, JobId(j)}));
      shapes.push_back(jobs.back()->shape());
    }
  }
  ~Pool() {
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
    }
    pool->use(std::move(use));
  }
  CorunWay way(CorunWay::Kind kind) const {
    CorunSearch search(pointers());
    if (kind == CorunWay::Kind::turns) return search.turns();
    const int64_t span = search.most_bytes() - search.least_bytes();
    if (kind == CorunWay::Kind::tickets) {
      CorunWay way{.kind = kind};
      int64_t tallest = 0;
      for (size_t j = 0; j < jobs.size(); ++j) tallest = std::max(tallest, height(j));
      way.pool_bytes = tallest + tallest / 4;
      way.placement = place_apart(pointers(), way.pool_bytes);
      return way;
    }
    for (int i = 0; i <= 32; ++i) {
      const auto way = search.side_by_side(search.least_bytes() + span * i / 32, CorunGoal::total);
      const bool even = way && (kind != CorunWay::Kind::circle ||
                                (way->circle.jobs[0].steps == 1 && way->circle.jobs[1].steps == 1));
      if (even && way->kind == kind) return *way;
    }
    throw std::runtime_error("no budget makes that way");
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

class SharedGpuPool : public OnGpu {
 protected:
  static Bytes alone(const Kind& kind, int steps) {
    Job job(kind);
    for (int i = 0; i < steps; ++i) job.step(i);
    return job.bytes();
  }
};

constexpr CorunWay::Kind kWays[] = {CorunWay::Kind::turns, CorunWay::Kind::beside,
                                    CorunWay::Kind::circle, CorunWay::Kind::tickets};
const Kind kSmall{.size = {.layers = 5, .batch = 16, .width = 24}};
const Kind kLarge{.size = {.layers = 8, .batch = 24, .width = 24}};

TEST_F(SharedGpuPool, BitsInEveryOrderOfTheStreams) {
  for (const bool graphs : {false, true}) {
    Kind a = kSmall, b = kLarge;
    a.graphs = b.graphs = graphs;
    const Bytes first = alone(a, 6), second = alone(b, 5);
    for (const CorunWay::Kind kind : kWays) {
      for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
        emulation::settings().order = order;
        Pool pool({a, b});
        pool.use(pool.way(kind));
        pool.run({6, 5});
        EXPECT_EQ(first_other(first, pool.jobs[0]->bytes()), "") << to_string(kind);
        EXPECT_EQ(first_other(second, pool.jobs[1]->bytes()), "") << to_string(kind);
      }
    }
    emulation::settings() = {};
  }
}

TEST_F(SharedGpuPool, ThreeJobsUnderTickets) {
  const Kind kinds[] = {kSmall, kLarge, {.size = {.layers = 3, .batch = 32, .width = 16}}};
  std::vector<Bytes> expected;
  for (const Kind& kind : kinds) expected.push_back(alone(kind, 5));
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    Pool pool({kinds[0], kinds[1], kinds[2]});
    pool.use(pool.way(CorunWay::Kind::tickets));
    pool.run({5, 5, 5});
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(first_other(expected[j], pool.jobs[j]->bytes()), "") << "job " << j;
    }
  }
}

// Steps are queued by one thread, a step of each job after the other: the same waits in each run.
// Where its streams go first, or as it happens, a job then has bytes that are still the other's.
class DroppedWait : public SharedGpuPool, public testing::WithParamInterface<CorunWay::Kind> {};
TEST_P(DroppedWait, Shows) {
  if (emulation::real()) GTEST_SKIP() << "a real device may be in time by luck";
  constexpr int kSteps = 2;
  const Kind a{.size = {.layers = 5, .batch = 16, .width = 24}, .poison = true};
  const Kind b{.size = {.layers = 8, .batch = 24, .width = 24}, .poison = true};
  const Bytes first = alone(a, kSteps), second = alone(b, kSteps);
  bool right = false;
  // How many waits there were more than it takes for one to be dropped.
  const auto run = [&](Order order, int64_t good) {
    emulation::settings() = {.order = order};
    Pool pool({a, b});
    pool.use(pool.way(GetParam()));
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
  const int64_t waits = kAll - run(Order::forward, kAll);
  EXPECT_TRUE(right);
  int64_t shown = 0;
  for (int64_t k = 0; k < waits; ++k) {
    bool shows = false;
    constexpr Order kOrders[] = {Order::forward,  Order::backward, Order::shuffled,
                                 Order::shuffled, Order::shuffled, Order::shuffled};
    for (size_t i = 0; i < std::size(kOrders) && !shows; ++i) run(kOrders[i], k), shows = !right;
    shown += shows;
  }
  // A step waits twice for its inputs; all other waits are the pool's.
  const int64_t of_pool = waits - int64_t(2) * 2 * kSteps;
  EXPECT_GE(of_pool, 3);
  EXPECT_GE(shown, of_pool);
}
INSTANTIATE_TEST_SUITE_P(Ways, DroppedWait,
                         testing::Values(CorunWay::Kind::tickets, CorunWay::Kind::circle),
                         [](const auto& way) { return std::string(to_string(way.param)); });

// From one way to another while jobs run, each with its own bytes of the pool.
TEST_F(SharedGpuPool, AnotherUseWhileJobsRunLeavesTheBits) {
  const Bytes first = alone(kSmall, 24), second = alone(kLarge, 24);
  for (const Order order : {Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    Pool pool({kSmall, kLarge});
    std::vector<CorunWay> ways;
    for (const CorunWay::Kind kind : kWays) ways.push_back(pool.way(kind));
    pool.use(ways[0]);
    std::atomic<bool> over{false};
    int64_t changes = 0;
    std::thread changer([&] {
      for (; !over; ++changes) {
        pool.use(ways[size_t(changes * 7 + 1) % ways.size()]);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
    pool.run({24, 24});
    over = true;
    changer.join();
    EXPECT_GT(changes, 3);
    EXPECT_EQ(first_other(first, pool.jobs[0]->bytes()), "");
    EXPECT_EQ(first_other(second, pool.jobs[1]->bytes()), "");
  }
}

TEST_F(SharedGpuPool, AUseHasItsBytesAndNoMore) {
  Pool pool({kSmall, kLarge});
  const CorunWay turns = pool.way(CorunWay::Kind::turns), beside = pool.way(CorunWay::Kind::beside);
  ASSERT_GT(beside.pool_bytes, turns.pool_bytes);
  const auto free = [&] { return pool.jobs[0]->set().device().accelerator->free_bytes(); };
  pool.use(turns);
  const int64_t before = free();
  pool.use(beside);
  EXPECT_EQ(pool.pool->bytes(), beside.pool_bytes);
  pool.run({2, 2});
  pool.use(turns);
  EXPECT_EQ(pool.pool->bytes(), turns.pool_bytes);
  if (!emulation::real()) {
    EXPECT_EQ(free(), before);
  }
  pool.run({2, 2}, 2);
  EXPECT_EQ(first_other(alone(kSmall, 4), pool.jobs[0]->bytes()), "");
}

// Bytes that are not to be had: the error names them, and the pool is as it was.
TEST_F(SharedGpuPool, APoolThatCannotGrowStaysAsItIs) {
  if (emulation::real()) GTEST_SKIP() << "nothing fails when it is told to";
  Pool pool({kSmall, kLarge});
  const CorunWay turns = pool.way(CorunWay::Kind::turns), beside = pool.way(CorunWay::Kind::beside);
  pool.use(turns);
  pool.run({3, 3});
  emulation::settings().good_allocations = 0;  // the next one fails, not the one after it
  EXPECT_THROW(pool.use(beside), BudgetError);
  EXPECT_EQ(pool.pool->bytes(), turns.pool_bytes);
  pool.run({3, 3}, 3);
  EXPECT_EQ(first_other(alone(kSmall, 6), pool.jobs[0]->bytes()), "");
  EXPECT_EQ(first_other(alone(kLarge, 6), pool.jobs[1]->bytes()), "");
}

// Nothing is allocated, and nobody waits for the whole device, once all has run and is recorded.
TEST_F(SharedGpuPool, StepsAreReplayedInPiecesAndAllocateNothing) {
  if (emulation::real()) GTEST_SKIP() << "nobody counts there";
  Pool pool({kSmall, kLarge});
  pool.use(pool.way(CorunWay::Kind::circle));
  pool.run({4, 4});
  emulation::settings().good_allocations = emulation::settings().good_pins = 0;
  const int64_t replays = emulation::graphs_run(), kernels = emulation::kernels_run();
  pool.run({4, 4}, 4);
  EXPECT_EQ(emulation::settings().good_allocations, 0) << "of the device";
  EXPECT_EQ(emulation::settings().good_pins, 0) << "of pinned memory";
  pool.jobs[0]->set().device().accelerator->synchronize();
  EXPECT_GE(emulation::graphs_run() - replays, 8 * 2) << "pieces";
  EXPECT_GT(emulation::kernels_run(), kernels);
}

}  // namespace
}  // namespace pal::test
