// Two micro-batches side by side have the bits of one behind the other, and keep to their budget.
#include "memory/overlap/compile_pair.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/order.h"
#include "core/verify.h"
#include "memory/storages/lifetimes.h"
#include "tests/memory/running.h"
#include "tests/support/micro_batches.h"

namespace pal::test {
namespace {

// A card that a micro-batch fills by half, so that overlapping gains time.
DeviceProfile half_full() {
  DeviceProfile d;
  d.name = "half full";
  d.f32 = d.vector = 1e12, d.memory = 1e11, d.units = 400, d.tile = 64, d.launch = 1e-6;
  return d;
}

class Pairs : public testing::Test {
 protected:
  explicit Pairs(ToySize size = {}) : size_(size) {
    options_.profile = half_full();
    for (const Program* p : {&first_, &middle_, &last_}) layout_.add(*p);
  }
  CompiledPair pair(const Program& a, const Program& b, PairQueues queues) {
    return compile_pair(a, b, cache_, layout_, options_, queues);
  }
  // Two updates of four micro-batches.
  Bytes one_by_one() {
    const Compiled a = compile(first_, cache_, layout_, options_);
    const Compiled b = compile(middle_, cache_, layout_, options_);
    const Compiled c = compile(last_, cache_, layout_, options_);
    ToyRun run;
    for (int step = 0; step < 2; ++step) {
      run.run(a, step, 0), run.run(b, step, 1), run.run(b, step, 2), run.run(c, step, 3);
    }
    return run.bytes();
  }
  Bytes in_pairs(PairQueues queues, RunOptions how = {}) {
    const Compiled front = pair(first_, middle_, queues).step;
    const Compiled back = pair(middle_, last_, queues).step;
    ToyRun run;
    for (int step = 0; step < 2; ++step) {
      run.run_pair(front, step, 0, how), run.run_pair(back, step, 2, how);
    }
    return run.bytes();
  }

  ToySize size_;
  Program first_ = toy_micro_batch(true, false, size_),
          middle_ = toy_micro_batch(false, false, size_),
          last_ = toy_micro_batch(false, true, size_);
  KernelCache cache_{Device{}};
  StateLayout layout_;
  CompileOptions options_;
};

TEST_F(Pairs, BitsAreThoseOfOneBehindTheOther) {
  const Bytes expected = one_by_one();
  EXPECT_EQ(expected.count("3 gate"), 1u);
  EXPECT_NE(expected.at("1 loss"), expected.at("0 loss"));
  EXPECT_EQ(first_other(expected, in_pairs(PairQueues::one)), "");
  EXPECT_EQ(first_other(expected, in_pairs(PairQueues::one, {.poison = true})), "");
  for (int again = 0; again < 20; ++again) {  // two threads, never at the same times
    ASSERT_EQ(first_other(expected, in_pairs(PairQueues::two)), "");
  }
}

TEST_F(Pairs, BitsUnderEveryPass) {
  for (const Recompute method : {Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    for (const bool dense : {true, false}) {
      options_.recompute = method;
      options_.encode.binarize = options_.encode.dropout_bits = !dense;
      options_.schedule = dense ? Schedule::lifetime : Schedule::program;
      options_.inplace = dense;
      const Bytes expected = one_by_one();
      for (const PairQueues queues : {PairQueues::one, PairQueues::two}) {
        EXPECT_EQ(first_other(expected, in_pairs(queues)), "") << to_string(method);
      }
    }
  }
}

// Every wait stands for values or for bytes: without it verify or check_plan refuses the step. The
// one that makes the shift may go.
TEST_F(Pairs, ALostWaitIsRefused) {
  const CompiledPair made = pair(first_, last_, PairQueues::two);
  const Compiled& c = made.step;
  int refused = 0, let = 0, for_bytes = 0;
  for (NodeId n : c.program.nodes.ids()) {
    if (c.program.node(n).waits.empty()) continue;
    Program lost = c.program;
    lost.node(n).waits.clear();
    const bool by_verify = !message_of([&] { verify(lost); }).empty();
    const bool by_plan = !message_of([&] { check_plan(lost, c.storages, c.plan); }).empty();
    refused += by_verify || by_plan, for_bytes += by_plan && !by_verify;
    let += !by_verify && !by_plan;
  }
  EXPECT_GT(refused, 5);
  EXPECT_GT(for_bytes, 2);
  EXPECT_LE(let, 1);
}

TEST_F(Pairs, TheChosenShiftIsTheFastestAndNeverBelowTheBound) {
  const CompiledPair made = pair(first_, last_, PairQueues::two);
  EXPECT_EQ(made.shifts.size(), 16u);
  double best = made.shifts[0].ms;
  for (const PairShift& s : made.shifts) {
    best = std::min(best, s.ms);
    EXPECT_GE(s.ms, made.least_ms * (1 - 1e-9));
    EXPECT_LE(s.ms, made.one_by_one_ms * (1 + 1e-9));
    EXPECT_GE(s.alive, made.larger_bytes);
  }
  EXPECT_LE(made.at.ms, 1.01 * best);
  EXPECT_LT(made.at.ms, 0.8 * made.one_by_one_ms);
  EXPECT_EQ(made.step.time->step_ms, made.at.ms);
  for (const PairShift& s : made.shifts) {
    if (s.ms <= 1.01 * best) {
      EXPECT_GE(s.alive, made.at.alive);
    }
  }
}

// On a device that one micro-batch fills all shifts take the same time.
TEST_F(Pairs, WhereNothingIsGainedTheFewestBytesDecide) {
  options_.profile->units = 1, options_.profile->launch = 0;
  const CompiledPair made = pair(first_, last_, PairQueues::two);
  int64_t least = INT64_MAX;
  for (const PairShift& s : made.shifts) {
    EXPECT_NEAR(s.ms, made.one_by_one_ms, 0.01 * made.one_by_one_ms);
    least = std::min(least, s.alive);
  }
  EXPECT_EQ(made.at.alive, least);
  EXPECT_LT(made.at.alive, made.shifts[0].alive);
}

TEST_F(Pairs, LaterShiftsNeedFewerBytesThanTwice) {
  const CompiledPair made = pair(first_, last_, PairQueues::two);
  int64_t least = INT64_MAX;
  for (const PairShift& s : made.shifts) least = std::min(least, s.alive);
  EXPECT_LT(least, made.shifts[0].alive);
  EXPECT_LT(least, 2 * made.larger_bytes);
}

TEST_F(Pairs, KeepToTheBudgetOrSayWhatIsMissing) {
  const CompiledPair free = pair(first_, last_, PairQueues::two);
  int64_t least = INT64_MAX;
  for (const PairShift& s : free.shifts) least = std::min(least, s.alive);
  ASSERT_LT(least, free.at.alive);
  options_.budget = (least + free.at.alive) / 2;
  const CompiledPair tight = pair(first_, last_, PairQueues::two);
  EXPECT_LE(tight.step.plan.device().bytes, *options_.budget);
  EXPECT_GT(tight.at.ms, free.at.ms);
  options_.budget = least - 64;
  const std::string error = message_of<BudgetError>([&] { pair(first_, last_, PairQueues::two); });
  EXPECT_NE(error.find("two micro-batches side by side need at least"), std::string::npos) << error;
}

TEST_F(Pairs, WhatHasQueuesOfItsOwnIsRefused) {
  options_.swap.method = Swap::vdnn;
  EXPECT_THROW(pair(first_, last_, PairQueues::one), ProgramError);
}

}  // namespace
}  // namespace pal::test
