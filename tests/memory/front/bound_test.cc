// The bound of a step's time: no plan that compile() makes is below it, whatever it was asked for.
#include "memory/front/bound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/builder.h"
#include "memory/compile.h"
#include "memory/front/pool.h"
#include "memory/passes/parts.h"
#include "tests/memory/front/chain_network.h"
#include "tests/memory/front/pieces.h"
#include "tests/memory/toy_card.h"
#include "tests/support/random_network.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

constexpr double kUpToRounding = 1 + 1e-9;

// About one of `one_of` of the step's values.
std::vector<ValueId> random_values(const Program& step, std::mt19937_64& random, uint64_t one_of) {
  std::vector<ValueId> values;
  for (ValueId v : split_parts(step).values.ids()) {
    if (random() % one_of == 0) values.push_back(v);
  }
  return values;
}

// What can be asked of a step, and random values that are made again.
std::vector<CompileOptions> plans_of(const Program& step, const CompileOptions& base,
                                     int64_t plain_bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<CompileOptions> plans{base};
  for (const Recompute method : {Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    plans.push_back(base), plans.back().recompute = method;
    plans.back().recompute_options.overhead = 0.3;
  }
  plans.push_back(base), plans.back().encode = kBits;
  for (const uint64_t one_of : {1, 2, 3, 5, 8, 20}) {
    plans.push_back(base), plans.back().recompute = Recompute::chosen;
    plans.back().recompute_options.chosen = random_values(step, random, one_of);
  }
  if (base.profile->link > 0) {
    for (size_t i = 0, end = plans.size(); i < end; ++i) {
      plans.push_back(plans[i]), plans.back().swap.method = i % 3 ? Swap::planned : Swap::vdnn;
    }
    for (const double part : {0.9, 0.8, 0.7, 0.6, 0.5}) {
      plans.push_back(base), plans.back().swap.method = Swap::planned;
      plans.back().budget = int64_t(part * double(plain_bytes));
    }
  }
  for (CompileOptions& each : plans) each.must_fit = false;
  return plans;
}

Program network_of(uint64_t seed) {
  if (seed % 8 == 4) return Pieces::vgg_start();  // has a relu that its pool's gradient does for
  if (seed % 8 == 6) return Pieces::bottlenecks();
  if (seed % 2 == 0) return chain_network(seed, {.layers = 10 + int(seed % 17)});
  return random_network(seed, {.layers = 5 + int(seed % 9), .batch = 64, .width = 16});
}

// PAL_TEST_NETWORKS: how many networks.
TEST(Bound, NoPlanIsFaster) {
  KernelCache cache{Device{}};
  int binding = 0, plans = 0;
  const uint64_t networks = networks_asked(24);
  for (uint64_t seed = 0; seed < networks; ++seed) {
    const Program step = network_of(seed);
    const StateLayout layout(step);
    CompileOptions base{.profile = toy_card(seed % 3 == 0 ? 0 : seed % 3 == 1 ? 1e8 : 2e6)};
    base.inplace = seed % 5 != 4;
    base.layouts = seed % 6 == 2;
    if (seed % 4 == 3) base.schedule = Schedule::program;
    if (seed % 7 == 6) base.fuse_recompute = base.fuse_epilogues = false;
    Bound bound(step, layout, base, *base.profile);
    const int64_t plain = least_bytes(step, cache, layout, base);
    for (const CompileOptions& options : plans_of(step, base, plain, seed)) {
      const Compiled plan = compile(step, cache, layout, options);
      const int64_t bytes = plan.plan.device().bytes;
      ASSERT_LE(bound.least_bytes(), bytes) << "seed " << seed;
      bound.sharpen(bytes, 12);
      ASSERT_LE(bound.ms(bytes), plan.time->step_ms * kUpToRounding)
          << "seed " << seed << ", plan " << plans << ", " << bytes << " bytes";
      binding += bound.ms(bytes) > 1.005 * bound.least_ms(), ++plans;
    }
  }
  EXPECT_GE(binding, int(networks) / 3);
}

TEST(Bound, FallsWithBytesAndIsTheSameEachTime) {
  const Program step = random_network(5, {.layers = 10, .batch = 16, .width = 32});
  const StateLayout layout(step);
  const CompileOptions options{.profile = toy_card(0)};
  std::vector<double> first;
  for (int run = 0; run < 2; ++run) {
    Bound bound(step, layout, options, *options.profile);
    const int64_t least = bound.least_bytes();
    for (int k = 10; k >= 0; --k) bound.sharpen(least + least * k / 20, 20);
    double last = std::numeric_limits<double>::infinity();
    for (int k = -1; k <= 10; ++k) {
      const double ms = bound.ms(least + least * k / 20);
      EXPECT_EQ(std::isinf(ms), k < 0);
      EXPECT_LE(ms, last);
      EXPECT_GE(ms, bound.least_ms());
      last = ms;
      if (run == 0) {
        first.push_back(ms);
      } else {
        EXPECT_EQ(ms, first[size_t(k + 1)]);
      }
    }
  }
}

TEST(Bound, OfTheFront) {
  KernelCache cache{Device{}};
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Program step = random_network(seed, {.layers = 8, .batch = 16, .width = 32});
    const StateLayout layout(step);
    const CompileOptions options{.profile = toy_card(seed % 2 ? 1e8 : 0)};
    const Front front = make_front(step, cache, layout, options);
    for (const FrontPoint& point : front.points) {
      EXPECT_GT(point.bound_ms, 0);
      EXPECT_LE(point.bound_ms, point.step_ms * kUpToRounding) << point.from;
      EXPECT_LE(Front::gap(point), 1);
    }
  }
}

// Nothing to choose, or nothing at all.
TEST(Bound, StepsWithoutMuchToChoose) {
  const CompileOptions options{.profile = toy_card(0)};
  Builder b;
  b.output("y", affine(affine(b.input("x", {Shape{1024}}))));
  const Program forward = b.take();
  Bound bound(forward, StateLayout(forward), options, *options.profile);
  EXPECT_EQ(bound.least_bytes(), 2 * 4096 + 4096);  // two slots of the input; in place
  bound.sharpen(bound.least_bytes(), 10);
  EXPECT_EQ(bound.ms(bound.least_bytes()), bound.least_ms());
  EXPECT_TRUE(std::isinf(bound.ms(bound.least_bytes() - 1)));
  const Program empty;
  Bound none(empty, StateLayout(empty), options, *options.profile);
  none.sharpen(100, 10);
  EXPECT_EQ(none.ms(0), 0);
}

Program with_own_origins(Program program) {
  for (ValueId v : program.values.ids()) program.value(v).origin = v;
  return program;
}

// Every byte for nothing: all is kept. However dear bytes are: no node is paid twice, and what is
// still needed is what cannot be made again.
TEST(BoundCutter, KeepsAllOrRunsAllAgain) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Program step =
        with_own_origins(seed % 2 ? random_network(seed, {.layers = 10, .batch = 64, .width = 16})
                                  : chain_network(seed, {.layers = 16}));
    const DeviceProfile card = toy_card(0);
    const StateLayout layout(step);
    const LeastTimes times = least_times(step, step, {}, card);
    for (const bool any_order : {true, false}) {
      const BoundGraph graph(step, layout, times, {.any_order = any_order});
      std::vector<Mark> marks;
      for (Mark i = 0; i < Mark(graph.chain().size()); i += 2) marks.push_back(i);
      const BoundCutter cutter(graph, marks);
      const BoundCut free = cutter.cut(std::vector<double>(marks.size(), 0), 1);
      const BoundCut dear = cutter.cut(std::vector<double>(marks.size(), 1e3), 1);
      double all = 0;
      for (NodeId n : step.nodes.ids()) {
        all += step.node(n).phase == Phase::forward ? times.again[n] : 0;
      }
      EXPECT_EQ(free.again_ms, 0);
      EXPECT_GT(dear.again_ms, 0);
      EXPECT_LE(dear.again_ms, all * kUpToRounding) << seed;
      EXPECT_LE(dear.least, all * kUpToRounding) << seed;
      for (size_t k = 0; k < marks.size(); ++k) {
        const auto at = size_t(marks[k]);
        EXPECT_EQ(double(graph.fixed()[at]) + free.needed[k], double(graph.kept()[at]))
            << seed << ", mark " << at;
        EXPECT_EQ(dear.needed[k], 0);
      }
    }
  }
}

// The gradient of relu behind a pool: the pool's gradient does its work, and reads no relu.
TEST(LeastTimes, FusedNodesDoWithoutOperands) {
  const Program step = with_own_origins(Pieces::vgg_start());
  double once = 0, apart = 0;
  for (const bool fused : {true, false}) {
    const LeastTimes times = least_times(
        step, step, {.fuse_epilogues = fused, .fuse_updates = false}, toy_card(0), false);
    int spared = 0;
    for (NodeId n : step.nodes.ids()) {
      spared += times.spared[n] != 0;
      (fused ? once : apart) += times.once[n];
    }
    EXPECT_EQ(spared, fused ? 3 : 0);
  }
  EXPECT_LT(once, apart);
  EXPECT_DOUBLE_EQ(apart, predict(step, toy_card(0)).step_ms);
}

// Bits in place of a map of which a gradient asks the values, too, are no plan's.
TEST(LeastTimes, BitsAreForMapsOfWhichNoMoreIsAsked) {
  const Program step = with_own_origins(Pieces::bottlenecks());
  const CompileOptions apart{
      .fuse_recompute = false, .fuse_epilogues = false, .fuse_updates = false};
  const LeastTimes with = least_times(step, step, apart, toy_card(0), true);
  const LeastTimes without = least_times(step, step, apart, toy_card(0), false);
  const auto asks = [&](NodeId n, ValueId v, bool values) {
    const Node& node = step.node(n);
    for (size_t k = 0; k < node.in.size(); ++k) {
      const Reads reads = reads_of(*node.op, int(k), node.attrs);
      if (node.in[k] == v && (values ? reads.takes_values() : reads.kind == Reads::Kind::predicate))
        return node.phase == Phase::backward;
    }
    return false;
  };
  int more = 0, no_more = 0;
  for (NodeId n : step.nodes.ids()) {
    for (ValueId v : present(step.node(n).in)) {
      if (!asks(n, v, false)) continue;
      bool values = false;
      for (NodeId m : step.nodes.ids()) values |= asks(m, v, true);
      (values ? more : no_more) += 1;
      if (values) {
        EXPECT_EQ(with.once[n], without.once[n]);
      } else {
        EXPECT_LT(with.once[n], without.once[n]);
      }
    }
  }
  EXPECT_GT(more, 0);
  EXPECT_GT(no_more, 0);
}

// However they are joined, there is one launch for those that may be one node.
TEST(LeastTimes, UpdatesOfAKindLaunchOnce) {
  const Program step = with_own_origins(random_network(2, {.layers = 8, .width = 32}));
  DeviceProfile card = toy_card(0), free = card;
  free.launch = 0;
  const LeastTimes times = least_times(step, step, {}, card),
                   none = least_times(step, step, {}, free);
  double launches = 0;
  int updates = 0;
  for (NodeId n : step.nodes.ids()) {
    if (!step.node(n).op->writes_state) continue;
    launches += times.once[n] - none.once[n], ++updates;
  }
  EXPECT_GT(updates, 1);
  EXPECT_NEAR(launches, 1e3 * card.launch, 1e-12);
}

// A view, halves and what they are joined to are the same bytes.
TEST(BoundGraph, CountsBytesByWhatTheySay) {
  Builder b;
  const Val h = affine(b.input("x", {Shape{1024}}));
  const std::vector<Val> parts = halves(view(h));
  b.output("y", reverse(join({affine(parts[1]), parts[0]})));
  const Program step = with_own_origins(b.take());
  const LeastTimes times = least_times(step, step, {}, toy_card(0));
  const BoundGraph graph(step, StateLayout(step), times, {});
  int64_t bytes = 0;
  for (const Atom& atom : graph.atoms()) bytes += atom.bytes;
  EXPECT_EQ(bytes, 4096 + 2048 + 4096);  // h, the affine of a half, y
}

}  // namespace
}  // namespace pal::test
