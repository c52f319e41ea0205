// Recomputation by prices: what the sums come to, what is dropped where bytes are dear, and that
// results are the same bits.
#include "memory/recompute/priced.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"
#include "memory/compile.h"
#include "memory/recompute/echo_trials.h"
#include "memory/storages/lifetimes.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/recompute/recompute_toys.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

TEST(Prices, SumsArePiecewise) {
  const int64_t tick = 1 << 20;
  const PriceSums sums({{10, tick}, {20, 0}, {30, 3 * tick}});
  EXPECT_EQ(sums.ticks(5, 0, 10), 0);
  EXPECT_EQ(sums.ticks(5, 0, 12), 10);
  EXPECT_EQ(sums.ticks(5, 12, 32), 5 * 8 + 5 * 3 * 2);
  EXPECT_EQ(sums.ticks(5, 40, 41), 15);
  EXPECT_EQ(sums.ticks(5, 41, 41), 0);
  EXPECT_EQ(sums.ticks(5, 41, 12), 0);
  EXPECT_EQ(sums.ticks(0, 12, 41), 0);
  EXPECT_EQ(PriceSums({}).ticks(5, 0, 100), 0);
}

TEST(Prices, NothingOverflows) {
  const PriceSums sums({{0, kEnd}, {5, kEnd - 1}});
  EXPECT_EQ(sums.ticks(kEnd, 0, std::numeric_limits<int32_t>::max()), kMostTicks);
  EXPECT_EQ(sums.ticks(1, 0, 1), std::min(kEnd >> 20, kMostTicks));
  EXPECT_EQ(ticks_of(1e300), kMostTicks);
  EXPECT_EQ(ticks_of(-1), 0);
}

TEST(Prices, WrongOnesAreRefused) {
  EXPECT_THROW(PriceSums({{3, 1}, {3, 2}}), UsageError);
  EXPECT_THROW(PriceSums({{4, 1}, {3, 2}}), UsageError);
  EXPECT_THROW(PriceSums({{0, -1}}), UsageError);
  Prices many;
  for (Position k = 0; k <= Position(kMostPieces); ++k) many.push_back({k, 1});
  EXPECT_THROW(PriceSums{many}, UsageError);
}

Program with_origins(Program program) {
  for (ValueId v : program.values.ids()) program.value(v).origin = v;
  return program;
}

int recomputed_at(const Program& program, int64_t price) {
  RecomputeOptions options{.prices = {{0, price}}};
  const RecomputeGoal goal{.device = &kEchoDevice};
  const Program out = recompute(program, Recompute::priced, footprint, nullptr, options, goal);
  int clones = 0;
  for (const Node& node : out.nodes) clones += node.phase == Phase::recompute;
  return clones;
}

// Free bytes stay; the dearer they are, the more is made again, and nothing overflows on the way.
TEST(Priced, DearBytesAreMadeAgain) {
  int more = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Program step = with_origins(random_network(seed, {.layers = 12}));
    EXPECT_EQ(recomputed_at(step, 0), 0) << seed;
    const int some = recomputed_at(step, kEnd / 1'000'000), all = recomputed_at(step, kEnd);
    more += all > 0;
    EXPECT_EQ(recomputed_at(step, kEnd), all) << seed;
    EXPECT_GE(some, 0) << seed;
  }
  EXPECT_GT(more, 10);
}

// A price where a stash is idle drops it; the same price before it is made, or after it is read
// again, does not.
TEST(Priced, OnlyPricesWhileAStashIsIdleDropIt) {
  Builder b;
  Val x = b.input("x", {Shape{1 << 20}});
  const ValueId early = b.program().values.next_id();
  Val y = affine(x);
  const ValueId made = b.program().values.next_id();
  Val loss = summit(b, 1 << 22, y);
  const ValueId later = b.program().values.next_id();
  {
    Builder::Within backward(b, Phase::backward);
    b.output("d", plus(loss, sum(reverse(y))));
  }
  const Program step = with_origins(b.take());
  const auto clones = [&](Prices prices) {
    const RecomputeOptions options{.prices = std::move(prices)};
    const RecomputeGoal goal{.device = &kEchoDevice};
    const Program out = recompute(step, Recompute::priced, footprint, nullptr, options, goal);
    return count_of(out, "affine") - 1;
  };
  const int64_t dear = int64_t{1} << 40;
  EXPECT_EQ(clones({{early - 1, dear}, {made, 0}}), 0);
  EXPECT_EQ(clones({{made + 2, dear}, {later, 0}}), 1);
  EXPECT_EQ(clones({{later + 2, dear}}), 0);
}

// Values that were chosen are made again, with what is chosen of what they need; no price counts.
TEST(Priced, WhatIsChosenIsMadeAgain) {
  Builder b;
  Val x = b.input("x", {Shape{1 << 10}});
  const ValueId first = b.program().values.next_id();
  Val y = affine(x);
  const ValueId second = b.program().values.next_id();
  Val z = affine(y);
  {
    Builder::Within backward(b, Phase::backward);
    b.output("d", sum(reverse(z)));
  }
  const Program step = with_origins(b.take());
  const auto clones = [&](std::vector<ValueId> chosen) {
    RecomputeOptions options{.prices = {{0, kEnd}}};
    options.chosen = std::move(chosen);
    const RecomputeGoal goal{.device = &kEchoDevice};
    const Program out = recompute(step, Recompute::priced, footprint, nullptr, options, goal);
    return count_of(out, "affine") - 2;
  };
  EXPECT_EQ(clones({}), 0);
  EXPECT_EQ(clones({first}), 0);  // nobody needs it
  EXPECT_EQ(clones({second}), 1);
  EXPECT_EQ(clones({first, second}), 2);
  EXPECT_THROW(clones({step.values.next_id()}), ProgramError);
  EXPECT_THROW(clones({kNone}), ProgramError);
}

// Whatever the prices, also beside the passes that follow: the same losses, gradients and weights.
TEST(Priced, SameBitsOnRandomNetworks) {
  KernelCache cache{Device{}};
  int changed = 0;
  const uint64_t networks = networks_asked(60);
  for (uint64_t seed = 0; seed < networks; ++seed) {
    const Program step = random_network(seed, {.layers = 6 + int(seed % 9)});
    const StateLayout layout(step);
    const Bits expected = bits_of(compile(step, cache, layout, {}));
    for (const int64_t price : {int64_t{1} << 30, int64_t{1} << 38, kEnd}) {
      CompileOptions options{.recompute = Recompute::priced};
      const auto half = Position(step.values.size() / 2);
      options.recompute_options.prices = {{0, price}, {half, price / 3}};
      options.recompute_options.rounds = 1 + int(seed % 3);
      const Compiled c = compile(step, cache, layout, options);
      ASSERT_EQ(difference_of(step, expected, bits_of(c)), "") << "seed " << seed;
      for (const Node& node : c.program.nodes) {
        if (node.phase != Phase::recompute) continue;
        ++changed;
        break;
      }
    }
  }
  EXPECT_GT(changed, int(networks) / 2);
}

}  // namespace
}  // namespace pal::test
