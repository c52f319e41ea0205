// Probe 10: two jobs in threads of their own, their transients in one pool that is smaller than
// both together. Each gets the bits that it gets alone; without the gates it would not.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/builder.h"
#include "core/error.h"
#include "memory/run/shared_plan.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/tensors/columns.h"
#include "tests/probes/probe.h"
#include "tests/probes/toy_ops.h"

namespace pal::test {
namespace {

constexpr int kSteps = 5;

std::vector<std::vector<std::byte>> results(Running& running) {
  std::vector<std::vector<std::byte>> out;
  for (auto& o : running.program().outputs) out.push_back(running.bytes(o.name));
  for (auto& slot : running.program().state) out.push_back(running.bytes(slot.name));
  return out;
}

void train(Running& running, uint32_t seed) {
  feed_perceptron(running, seed);
  for (int i = 0; i < kSteps; ++i) running.run();
}

StepShape shape_of(const Step& step, const Plan& plan) {
  return step_shape("job", step.program, step.storages, plan, DeviceProfile{});
}

std::unique_ptr<SharedPool> pool_under_tickets(int64_t bytes, size_t jobs) {
  return std::make_unique<SharedPool>(
      CorunWay{.kind = CorunWay::Kind::tickets, .pool_bytes = bytes}, jobs, bytes);
}

TEST(SharedPool, TwoJobsInOnePoolGetTheirOwnBits) {
  const Program programs[] = {perceptron(6, 128, 32, true), perceptron(9, 64, 48, true)};
  std::vector<std::vector<std::vector<std::byte>>> alone;
  for (uint32_t j = 0; j < 2; ++j) {
    Planned planned(programs[j]);
    train(planned.running(), j + 1);
    alone.push_back(results(planned.running()));
  }
  const Step first(programs[0]), second(programs[1]);
  const Step* steps[] = {&first, &second};
  Plan plans[2];
  StepShape shapes[2];
  int64_t together = 0, larger = 0;
  for (size_t j = 0; j < 2; ++j) {
    plans[j] = make_plan(steps[j]->program, steps[j]->storages, StateLayout(steps[j]->program));
    shapes[j] = shape_of(*steps[j], plans[j]);
    PoolOffsets unused;
    const int64_t height = place_longest_first(shapes[j], unused);
    together += height, larger = std::max(larger, height);
  }
  // Between what the larger one needs and what both need.
  for (int round = 0; round < 5; ++round) {
    const auto pool = pool_under_tickets(align_up((larger + together) / 2), 2);
    ASSERT_LT(pool->bytes(), together);
    Arena arenas[2];
    std::vector<std::unique_ptr<SharedPlan>> memories;
    for (size_t j = 0; j < 2; ++j) {
      memories.push_back(std::make_unique<SharedPlan>(steps[j]->storages, plans[j], shapes[j],
                                                      arenas[j], *pool, JobId(j)));
    }
    std::vector<std::vector<std::byte>> shared[2];
    std::string errors[2];
    auto job = [&](uint32_t j) {
      errors[j] = error_of([&] {
        Running running(*steps[j], *memories[j]);
        train(running, j + 1);
        shared[j] = results(running);
      });
      pool->leave(JobId(j));
    };
    std::thread other(job, 1);
    job(0);
    other.join();
    for (size_t j = 0; j < 2; ++j) {
      EXPECT_EQ(errors[j], "");
      EXPECT_EQ(shared[j], alone[j]) << "job " << j << ", round " << round;
    }
  }
}

// A job that stands still in the middle of a step, until `flag` is set or for so long.
Program standing(std::atomic<bool>* flag, int milliseconds) {
  Builder b;
  Val x = b.input("x", {{64, 64}});
  Val kept = scale(x, 2);
  Val held = held_copy(x, flag, milliseconds);
  b.output("y", mul(held, kept));
  return b.take();
}
// A job that uses all of its memory, then sets `flag`.
Program passing(std::atomic<bool>* flag) {
  Builder b;
  Val x = b.input("x", {{64, 64}});
  Val part = slice_columns(tanh(concatenate({x, x, x, x})), 64, 128);
  b.output("y", signal(sigmoid(part), flag));
  return b.take();
}

// What a pool would be without its gates: transients at places that nobody holds.
class Ungated final : public Memory {
 public:
  Ungated(const Step& step, const Plan& plan, Arena& pool, Arena& own)
      : storages_(step.storages), plan_(plan), pool_(pool), own_(own) {
    own_.reserve(plan);
    pool_.reserve(Space::device, plan.device().bytes);
  }
  std::byte* acquire(StorageId s, QueueId) override {
    const Storage& storage = storages_[s];
    const bool kept = storage.input || storage.output || storage.persistent;
    return (kept ? own_ : pool_).base(Space::device) + plan_.offset[size_t(s)];
  }
  std::byte* outside_step(StorageId s) override { return acquire(s, kComputeQueue); }
  int64_t capacity() const override { return 0; }

 private:
  const Storages& storages_;
  const Plan& plan_;
  Arena &pool_, &own_;
};

// Starts the standing job, then the passing one, in memories that `memory_of` makes.
template <class MemoryOf> std::vector<std::byte> stood(int milliseconds, MemoryOf memory_of) {
  std::atomic<bool> flag{false};
  const Step first(standing(&flag, milliseconds)), second(passing(&flag));
  const Plan plans[] = {make_plan(first.program, first.storages, StateLayout(first.program)),
                        make_plan(second.program, second.storages, StateLayout(second.program))};
  Arena arenas[2];
  auto m0 = memory_of(first, plans[0], arenas[0]), m1 = memory_of(second, plans[1], arenas[1]);
  Running job0(first, *m0), job1(second, *m1);
  job0.set("x", random_floats(64 * 64, 1));
  job1.set("x", random_floats(64 * 64, 2));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // job 0 stands still by then
    job1.run();
  });
  job0.run();
  other.join();
  return job0.bytes("y");
}

TEST(SharedPool, GatesKeepTheOtherJobOut) {
  std::atomic<bool> flag{true};
  Planned alone(standing(&flag, 0));
  alone.set("x", random_floats(64 * 64, 1));
  alone.run();

  // All of it is in use while job 0 stands: job 1 waits for it, not the other way round.
  const auto pool = pool_under_tickets(5 * 64 * 64 * 4, 2);
  std::vector<StepShape> shapes;
  shapes.reserve(2);
  const auto gated = stood(100, [&](const Step& step, const Plan& plan, Arena& own) {
    shapes.push_back(shape_of(step, plan));
    return std::make_unique<SharedPlan>(step.storages, plan, shapes.back(), own, *pool,
                                        JobId(shapes.size() - 1));
  });
  EXPECT_EQ(gated, alone.bytes("y"));
  EXPECT_GT(pool->stats(1).waits, 0);

  Arena shared;
  shared.reserve(Space::device, 1 << 20);
  const auto ungated = stood(10'000, [&](const Step& step, const Plan& plan, Arena& own) {
    return std::make_unique<Ungated>(step, plan, shared, own);
  });
  EXPECT_NE(ungated, alone.bytes("y"));
}

}  // namespace
}  // namespace pal::test
