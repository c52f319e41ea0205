// The front of random training steps: what a budget picks keeps to it, is never slower than a
// technique alone that fits, never slower with more bytes, and gives the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "memory/front/pool.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/front/chain_network.h"
#include "tests/memory/toy_card.h"
#include "tests/support/random_network.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

// A card packs no weights.
CompileOptions on_card(double link) { return {.layouts = false, .profile = toy_card(link)}; }

struct Alone {
  const char* what;
  Recompute recompute = Recompute::none;
  double overhead = 0.09;
  Swap swap = Swap::none;
  bool bits = false;
};
constexpr Alone kAlone[] = {{"none"},
                            {"mirror", Recompute::mirror},
                            {"sqrt", Recompute::sqrt},
                            {"echo 2 %", Recompute::echo, 0.02},
                            {"echo 9 %", Recompute::echo, 0.09},
                            {"echo 30 %", Recompute::echo, 0.3},
                            {"bits", Recompute::none, 0, Swap::none, true},
                            {"swapped", Recompute::none, 0, Swap::planned},
                            {"swapped, vdnn", Recompute::none, 0, Swap::vdnn}};

CompileOptions options_of(const Alone& alone, CompileOptions options) {
  options.recompute = alone.recompute, options.recompute_options.overhead = alone.overhead;
  options.swap.method = alone.swap;
  if (alone.bits) options.encode = kBits;
  return options;
}

bool same_points(const Front& a, const Front& b) {
  return std::equal(a.points.begin(), a.points.end(), b.points.begin(), b.points.end(),
                    [](const FrontPoint& x, const FrontPoint& y) {
                      return x.bytes == y.bytes && x.step_ms == y.step_ms && x.from == y.from;
                    });
}

TEST(Front, FastestThatFitsWithTheSameBits) {
  KernelCache cache{Device{}};
  int combined = 0, below_all = 0;
  const uint64_t networks = networks_asked(6);
  for (uint64_t seed = 0; seed < networks; ++seed) {
    const std::string where = "seed " + std::to_string(seed);
    const Program step =
        random_network(seed, {.layers = 6 + int(seed % 7), .batch = 16, .width = 32});
    const StateLayout layout(step);
    const CompileOptions base = on_card(seed % 3 == 1 ? 1e8 : 0);
    const Front front = make_front(step, cache, layout, base);
    ASSERT_FALSE(front.points.empty()) << where;
    ASSERT_TRUE(same_points(front, make_front(step, cache, layout, base, {}, 5))) << where;

    int64_t least_alone = front.points.back().bytes;
    for (const Alone& alone : kAlone) {
      if (alone.swap != Swap::none && !base.profile->link) continue;
      const Compiled c = compile(step, cache, layout, options_of(alone, base));
      const FrontPoint* pick = front.pick({c.plan.device().bytes});
      ASSERT_TRUE(pick) << where << " " << alone.what;
      ASSERT_LE(pick->step_ms, c.time->step_ms) << where << " " << alone.what;
      least_alone = std::min(least_alone, c.plan.device().bytes);
    }
    const Bits expected = bits_of(compile(step, cache, layout, base));
    const int64_t least = front.points.front().bytes, most = front.points.back().bytes;
    ASSERT_GE(least, front.floor.bytes)
        << where << ", " << front.floor.node << "; " << front.points.front().from;
    ASSERT_EQ(front.pick({least - 1}), nullptr) << where;
    below_all += least < least_alone;
    double before = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= 10; ++i) {
      const int64_t budget = least + (most - least) * i / 10;
      const FrontPoint* pick = front.pick({budget});
      ASSERT_TRUE(pick) << where;
      ASSERT_LE(pick->step_ms, before) << where;
      before = pick->step_ms;
      const Compiled c = compile(step, cache, layout, pick->options);
      ASSERT_EQ(c.plan.device().bytes, pick->bytes) << where;
      ASSERT_LE(c.plan.device().bytes, budget) << where;
      ASSERT_EQ(c.time->step_ms, pick->step_ms) << where;
      ASSERT_EQ(difference_of(step, expected, bits_of(c)), "") << where << " " << pick->from;
      combined += pick->from.starts_with("chosen");
    }
  }
  EXPECT_GT(combined, 0);
  EXPECT_GT(below_all, 0);
}

// A plan that copies takes the place of a slower one that does not. With less of the host's memory
// the front has both, and so no less than without a link.
TEST(Front, WithinTheHostsMemoryIsAllThatThereIsWithoutCopies) {
  KernelCache cache{Device{}};
  int dropped = 0, with_copies = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const std::string where = "seed " + std::to_string(seed);
    const Program step = random_network(seed, {.layers = 8, .batch = 16, .width = 32});
    const StateLayout layout(step);
    CompileOptions options = on_card(1e8);
    const Front whole = make_front(step, cache, layout, options);
    options.host_budget = 0;
    const Front none = make_front(step, cache, layout, options);
    ASSERT_TRUE(same_points(none, make_front(step, cache, layout, on_card(0)))) << where;
    options.host_budget = whole.points.front().host / 2;
    const Front part = make_front(step, cache, layout, options);
    for (const FrontPoint& point : none.points) {
      ASSERT_EQ(point.offloaded, 0) << where;
      const FrontPoint* pick = part.pick({.device = point.bytes, .host = *options.host_budget});
      ASSERT_TRUE(pick) << where << " " << point.from;
      ASSERT_LE(pick->step_ms, point.step_ms) << where << " " << point.from;
      const FrontPoint* beside = whole.pick({.device = point.bytes, .host = 0});
      dropped += !beside || beside->step_ms > point.step_ms;
    }
    for (const FrontPoint& point : part.points) {
      const Compiled c = compile(step, cache, layout, point.options);
      ASSERT_EQ(c.plan.device().bytes, point.bytes) << where << " " << point.from;
      ASSERT_EQ(c.time->step_ms, point.step_ms) << where << " " << point.from;
      ASSERT_LE(c.plan.host().bytes, *options.host_budget) << where << " " << point.from;
      ASSERT_LE(point.bound_ms, point.step_ms) << where << " " << point.from;
      with_copies += point.offloaded > 0;
    }
  }
  EXPECT_GT(dropped, 0);
  EXPECT_GT(with_copies, 0);
}

// Where all that may run again does, copies free what is left.
TEST(Front, CopiesReachBelowWhatRunsAgain) {
  KernelCache cache{Device{}};
  int below = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Program step = random_network(seed, {.layers = 8 + int(seed), .batch = 16, .width = 32});
    const StateLayout layout(step);
    const Front linked = make_front(step, cache, layout, on_card(1e8));
    const FrontPoint& least = linked.points.front();
    if (!least.from.ends_with(", swapped") || least.from.starts_with("echo")) continue;
    const int64_t without = make_front(step, cache, layout, on_card(0)).points.front().bytes;
    EXPECT_LE(least.bytes, without);
    if (least.bytes == without) continue;  // it is as small, and faster
    ++below;
    for (const FrontAlone& alone : linked.alone) EXPECT_LT(least.bytes, alone.bytes);
    const Compiled c = compile(step, cache, layout, least.options);
    EXPECT_EQ(c.plan.device().bytes, least.bytes);
    EXPECT_EQ(difference_of(step, bits_of(compile(step, cache, layout, on_card(1e8))), bits_of(c)),
              "");
  }
  EXPECT_GT(below, 0);
}

// Blocks whose borders and maps leave for the host are among a front's plans, with the same bits.
TEST(Front, HasSegmentsThatCopy) {
  KernelCache cache{Device{}};
  int copied = 0;
  for (uint64_t seed = 0; seed < 6 && copied < 3; ++seed) {
    const Program step = chain_network(seed, {.layers = 24});
    const StateLayout layout(step);
    const CompileOptions base = on_card(1e7);
    const Bits expected = bits_of(compile(step, cache, layout, base));
    for (const FrontPoint& point : make_front(step, cache, layout, base).points) {
      if (point.from != "segments, copied") continue;
      ++copied;
      const Compiled c = compile(step, cache, layout, point.options);
      EXPECT_EQ(c.plan.device().bytes, point.bytes) << seed;
      EXPECT_EQ(c.time->step_ms, point.step_ms) << seed;
      EXPECT_GT(point.offloaded, 0) << seed;
      EXPECT_EQ(difference_of(step, expected, bits_of(c)), "") << seed;
    }
  }
  EXPECT_GT(copied, 0);
}

// Beside state of other programs there are the same plans: for its bytes more, about as fast.
TEST(Front, StateOfOthersIsBesideAllPlans) {
  KernelCache cache{Device{}};
  Builder b;
  b.state("other", {{1 << 18}}, Role::optimizer_state);
  const Program other = b.take();
  constexpr int64_t kOthers = 1 << 20;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Program step = random_network(seed, {.layers = 12, .batch = 64, .width = 32});
    const StateLayout own(step);
    StateLayout both(step);
    both.add(other);
    const Front alone = make_front(step, cache, own, on_card(1e8));
    const Front beside = make_front(step, cache, both, on_card(1e8));
    EXPECT_GE(beside.floor.bytes, both.bytes());
    for (const FrontPoint& point : alone.points) {
      const FrontPoint* pick = beside.pick({point.bytes + kOthers});
      ASSERT_TRUE(pick) << seed << " " << point.from;
      EXPECT_LE(pick->step_ms, 1.05 * point.step_ms) << seed << " " << point.from;
    }
  }
}

// But for the technique of that name.
TEST(Front, KeepsNoBitsWhereNoneAreWanted) {
  KernelCache cache{Device{}};
  int with = 0, without = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Program step = random_network(seed, {.layers = 12, .batch = 64, .width = 32});
    const StateLayout layout(step);
    CompileOptions options = on_card(0);
    for (const FrontPoint& point : make_front(step, cache, layout, options).points) {
      with += point.encoded > 0;
    }
    options.recompute_options.bits = false;
    for (const FrontPoint& point : make_front(step, cache, layout, options).points) {
      if (point.from != "bits") {
        EXPECT_EQ(point.encoded, 0) << seed << " " << point.from;
      }
      ++without;
    }
  }
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 8);
}

// What is asked of recomputation and of a budget does not change the front, nor do threads.
TEST(Front, DependsOnNoBudget) {
  KernelCache cache{Device{.threads = 3}};
  const Program step = random_network(3, {.layers = 10, .batch = 16, .width = 32});
  const StateLayout layout(step);
  CompileOptions base = on_card(1e8);
  const Front front = make_front(step, cache, layout, base);
  base.budget = front.points.front().bytes, base.recompute = Recompute::sqrt;
  base.swap.method = Swap::vdnn, base.encode = kBits;
  EXPECT_TRUE(same_points(front, make_front(step, cache, layout, base)));
}

TEST(Front, StepsWithoutMuchToChoose) {
  KernelCache cache{Device{}};
  // No backward phase.
  Builder b;
  Val x = b.input("x", {Shape{1024}});
  b.output("y", affine(affine(x)));
  const Program forward = b.take();
  const StateLayout none(forward);
  const Front front = make_front(forward, cache, none, on_card(1e8));
  ASSERT_EQ(front.points.size(), 1u);
  EXPECT_EQ(front.points[0].from, "none");
  EXPECT_EQ(front.pick({front.points[0].bytes}), &front.points[0]);
  EXPECT_EQ(front.points[0].kept, 0);
  // Gradients that read none of the maps, though there are borders.
  const Program linear = random_network(1436, {.layers = 7, .batch = 16, .width = 32});
  const Front of_linear = make_front(linear, cache, StateLayout(linear), on_card(0));
  EXPECT_EQ(of_linear.points.back().kept, 0);
}

TEST(Front, ManagersAreRefused) {
  KernelCache cache{Device{}};
  const Program step = random_network(1, {.layers = 2});
  CompileOptions options = on_card(0);
  options.dynamic.manager = Manager::delta;
  EXPECT_THROW(make_front(step, cache, StateLayout(step), options), UsageError);
}

}  // namespace
}  // namespace pal::test
