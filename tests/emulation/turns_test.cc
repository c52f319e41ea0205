// What lies around the kernels of a set of programs on one GPU: state that survives a growing
// arena, outputs that are watched while the next program's inputs come in, recordings that the
// device has no room for.
#include <cmath>
#include <cstring>

#include "core/builder.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/optimizer/sgd.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "tests/emulation/fixture.h"
#include "train/loop/step_watch.h"

namespace pal::test {
namespace {

using emulation::Order;

class SetOnGpu : public OnGpu {
 protected:
  // w -= rate * the sum over the rows of x.
  static Program step_over(int64_t rows) {
    Builder b;
    Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
    Val w = b.state("w", {{8}}, Role::weight);
    Val gradient = sum_leading(scale(relu(b.input("x", {{rows, 8}})), 0.5f));
    sgd(w, gradient, scalars);
    b.output("gradient", gradient);
    return b.take();
  }
  static void run(Executable& step, float x, float rate) {
    const StepScalars scalars{.learning_rate = rate};
    std::memcpy(step.input("scalars"), &scalars, sizeof scalars);
    std::fill_n(reinterpret_cast<float*>(step.input("x")), step.input_spec("x").numel(), x);
    step.run();
  }
  static std::vector<float> weights(ProgramSet& set) {
    const float* w = reinterpret_cast<const float*>(set.state()[0].data);
    return {w, w + 8};
  }
  // steps(set, whether it waits for each) leaves the same weights either way.
  template <class Steps> static void expect_no_wait_missing(Steps steps) {
    for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
      emulation::settings().order = order;
      std::vector<float> want;
      for (const bool waits : {true, false}) {
        ProgramSet set({}, cuda_device());
        steps(set, waits);
        if (waits) want = weights(set);
        EXPECT_EQ(weights(set), want) << int(order);
      }
    }
  }
};

// The steps have changed the state on the device alone when a larger program comes.
TEST_F(SetOnGpu, StateSurvivesAGrowingArena) {
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    const Device device = cuda_device();
    ProgramSet set({}, device);
    Executable& step = set.add("small", step_over(3));
    std::fill_n(reinterpret_cast<float*>(set.state()[0].data), 8, 3.0f);
    run(step, 1, 0.5f);
    const int64_t before = set.arena_bytes();
    set.add("large", step_over(4000));
    EXPECT_GT(set.arena_bytes(), before);
    // Whatever is still under way is done before this returns.
    device.accelerator->release(Space::host, device.accelerator->allocate(Space::host, 64));
    EXPECT_EQ(weights(set), std::vector<float>(8, 3 - 0.5f * 0.5f * 3));
  }
}

// Several outputs cost one wait, and are this run's; one that was not asked for is had as ever.
TEST_F(SetOnGpu, OutputsAreFetchedAtOnce) {
  ProgramSet set({}, cuda_device());
  Builder b;
  const Val x = b.input("x", {{5}});
  b.output("double", scale(x, 2));
  b.output("triple", scale(x, 3));
  b.output("half", scale(x, 0.5f));
  Executable& step = set.add("step", b.take());
  for (const float value : {4.0f, -8.0f}) {
    std::fill_n(reinterpret_cast<float*>(step.input("x")), 5, value);
    step.run();
    const int64_t before = emulation::waits_made();
    step.fetch({"double", "triple"});
    EXPECT_EQ(*step.output("double"), 2 * value);
    EXPECT_EQ(step.output("triple")[4], 3 * value);
    // The first time, pinned memory is had.
    EXPECT_LE(emulation::waits_made() - before, value > 0 ? 2 : 1);
    EXPECT_EQ(*step.output("half"), value / 2);
  }
  // What was brought is of the run before.
  std::fill_n(reinterpret_cast<float*>(step.input("x")), 5, 1.0f);
  step.run();
  EXPECT_EQ(*step.output("double"), 2);
}

// Old and new are never held at once: an arena may grow to more than half of the memory. Where it
// may not grow, it is as it was.
TEST_F(SetOnGpu, ArenaGrowsBeyondHalfOfTheMemory) {
  if (emulation::real()) GTEST_SKIP() << "a real one has what it has";
  emulation::settings().memory = 1 << 20;
  ProgramSet set({}, cuda_device());
  Executable& first = set.add("first", step_over(6000));
  run(first, 1, 0.5f);
  const std::vector<float> then = weights(set);
  const int64_t small = set.arena_bytes();
  ASSERT_GT(small, 1 << 18);
  for (int i = 0; i < 4; ++i) run(first, 1, 0);  // recorded by now, with both slots of its inputs
  EXPECT_THROW(set.add("too large", step_over(40000)), BudgetError);
  EXPECT_EQ(set.arena_bytes(), small);
  EXPECT_EQ(weights(set), then);
  set.add("large", step_over(9500));
  EXPECT_GT(set.arena_bytes() + small, 1 << 20);
  EXPECT_EQ(weights(set), then);
  run(first, 1, 0.5f);
  EXPECT_EQ(weights(set)[0], 2 * then[0]);
}

// The inputs of one program lie where another one has its loss; nobody waits in between. The larger
// one reads its inputs from the first slot as well as from the second.
TEST_F(SetOnGpu, WatchedOutputsAreTheirOwnPrograms) {
  const Device device = cuda_device();
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    ProgramSet set({}, device);
    std::vector<Executable*> steps;
    for (const int64_t rows : {1, 500}) {
      Builder b;
      Val x = b.input("x", {{rows, 8}});
      Val loss = sum_all(x);
      b.output("loss", loss), b.output("gate", scale(broadcast_leading(loss, {4}), 1));
      b.output("grad_norm", scale(broadcast_leading(loss, {4}), 2));
      steps.push_back(&set.add(std::to_string(rows), b.take()));
    }
    StepWatch watch(device.accelerator, 12);
    for (int64_t n = 0; n < 12; ++n) {
      const bool larger = n % 3 == 2;
      Executable& step = *steps[larger];
      // What the watch must not see: NaNs among the inputs of the larger one, not in the smaller.
      std::fill_n(reinterpret_cast<float*>(step.input("x")), step.input_spec("x").numel(),
                  larger ? NAN : 1.0f);
      step.run();
      if (!larger) watch.keep(step, n, true);
    }
    EXPECT_FALSE(watch.first_bad()) << int(order);
  }
}

// Programs with other inputs, one by one or in no order: the host waits for no run but the last but
// one, whose inputs lie where the next ones go, and the weights are those of steps that are waited
// for. The largest comes first, so that all have room in its slots.
TEST_F(SetOnGpu, ProgramsTakeTurnsWithoutWaiting) {
  const std::vector<int64_t> rows = {500, 1, 60};
  const std::vector<size_t> turns = {0, 1, 0, 2, 1, 1, 2, 0, 0, 1, 2, 1, 0, 2, 2, 1};
  expect_no_wait_missing([&](ProgramSet& set, bool waits) {
    Accelerator& accelerator = *set.device().accelerator;
    std::vector<Executable*> steps;
    for (const int64_t n : rows) steps.push_back(&set.add(std::to_string(n), step_over(n)));
    for (Executable* step : steps) {
      EXPECT_EQ(step->compiled().plan.device().inputs, steps[0]->compiled().plan.device().inputs);
    }
    for (Executable* step : steps) {  // the recordings of both slots, for which the host waits
      for (int n = 0; n < 4; ++n) run(*step, 1, 0.5f);
    }
    const int64_t row = 8 * sizeof(float);
    std::byte* const sent = accelerator.allocate(Space::host, row * int64_t(turns.size()));
    const auto first_of = [&](size_t n) {
      float first = 0;
      std::memcpy(&first, sent + int64_t(n) * row, sizeof first);
      return first;
    };
    for (size_t n = 0; n < turns.size(); ++n) {
      run(*steps[turns[n]], float(n + 1), 0.5f);
      steps[turns[n]]->send_output("gradient", sent + int64_t(n) * row);
      if (waits) accelerator.synchronize();
      if (waits || emulation::real() || n == 0) continue;
      EXPECT_EQ(first_of(n - 1), 0) << "run " << n << " has waited for the one before";
    }
    accelerator.synchronize();
    for (size_t n = 0; n < turns.size(); ++n) {
      EXPECT_EQ(first_of(n), 0.5f * float(n + 1) * float(rows[turns[n]])) << "run " << n;
    }
    accelerator.release(Space::host, sent);
  });
}

// One whose inputs have no room in the others' slots lies over them, and waits for their end.
TEST_F(SetOnGpu, LargerInputsComeAfterTheEndOfOthers) {
  expect_no_wait_missing([](ProgramSet& set, bool waits) {
    Executable &small = set.add("small", step_over(3)), &large = set.add("large", step_over(400));
    EXPECT_LT(small.compiled().plan.device().inputs, large.compiled().plan.device().inputs);
    for (int n = 0; n < 10; ++n) {
      run(n % 3 ? small : large, float(n + 1), 0.5f);
      if (waits) set.device().accelerator->synchronize();
    }
  });
}

// Slots as large as another program's do not make a program fail that just fits its budget.
TEST_F(SetOnGpu, RoomForInputsGivesWayToTheBudget) {
  ProgramSet alone({}, cuda_device());
  const int64_t least = alone.add("step", step_over(3)).compiled().plan.device().bytes;
  ProgramSet set({}, cuda_device());
  set.add("large", step_over(400));
  CompileOptions options;
  options.budget = least;
  Executable& step = set.add("step", step_over(3), options);
  EXPECT_EQ(step.compiled().plan.device().bytes, least);
  options.budget = least - 1;
  EXPECT_THROW(set.add("step", step_over(3), options), BudgetError);
}

// State that one program keeps to itself, from run to run and not beyond, whoever runs in between.
TEST_F(SetOnGpu, AProgramKeepsStateOfItsOwn) {
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    ProgramSet set({}, cuda_device());
    Executable& step = set.add("step", step_over(5));
    Builder b;
    Val sum = b.state("sum", {{8}}, Role::statistic), x = b.input("x", {{8}});
    Val next = add(sum, x);
    assign(sum, next);
    b.output("sum", scale(next, 1));
    Executable& keeping = set.add_keeping("keeping", b.take());
    EXPECT_EQ(set.state().size(), 1u);  // the set's is w alone
    for (int round = 0; round < 3; ++round) {
      run(step, 1, 0.5f);
      std::fill_n(reinterpret_cast<float*>(keeping.kept("sum").data()), 8, float(100 * round));
      for (int n = 1; n <= 4; ++n) {
        std::fill_n(reinterpret_cast<float*>(keeping.input("x")), 8, float(n));
        keeping.run();
        if (n % 2) continue;
        EXPECT_EQ(keeping.output("sum")[7], float(100 * round + n * (n + 1) / 2)) << int(order);
      }
    }
    EXPECT_EQ(weights(set), std::vector<float>(8, -3 * 0.5f * 0.5f * 5)) << int(order);
    EXPECT_THROW(keeping.kept("w"), ProgramError);
  }
}

// No room for a recording: the steps run all the same.
TEST_F(SetOnGpu, RunsUnrecordedWhatCannotBeRecorded) {
  if (emulation::real()) GTEST_SKIP() << "a real one has what it has";
  std::vector<float> want;
  for (const int64_t good : {-1, 0, 1}) {
    emulation::settings().good_graphs = good;
    ProgramSet set({}, cuda_device());
    Executable& step = set.add("step", step_over(3));
    const int64_t before = emulation::graphs_run();
    for (int n = 0; n < 6; ++n) run(step, float(n), 0.5f);
    const std::vector<float> got = weights(set);
    if (good == -1) want = got;
    EXPECT_EQ(got, want) << good;
    EXPECT_EQ(emulation::graphs_run() - before, good == -1 ? 5 : good) << good;
  }
}

TEST_F(SetOnGpu, KeepsABoundedNumberOfRecordings) {
  if (emulation::real()) GTEST_SKIP() << "the driver does not count";
  const int most = int(Turns::kMostRecorded);
  ProgramSet set({}, cuda_device());
  std::vector<Executable*> steps;
  // An odd number of them: each comes by turns to either slot of the inputs.
  for (int i = 0; i < most + 3; ++i) steps.push_back(&set.add(std::to_string(i), step_over(1 + i)));
  const int64_t before = emulation::graphs_alive();
  for (int round = 0; round < 6; ++round) {
    for (Executable* step : steps) run(*step, 1, 0.5f);
  }
  EXPECT_EQ(emulation::graphs_alive() - before, 2 * most);
  // One that was without a place takes that of one that has not run for long.
  for (int64_t n = 0; n <= Turns::kLongUnused; ++n) run(*steps[0], 1, 0.5f);
  const int64_t replays = emulation::graphs_run();
  for (int n = 0; n < 4; ++n) run(*steps[size_t(most)], 1, 0.5f);
  (void)weights(set);
  EXPECT_GT(emulation::graphs_run(), replays);
  EXPECT_EQ(emulation::graphs_alive() - before, 2 * most);
}

}  // namespace
}  // namespace pal::test
