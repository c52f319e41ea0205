// Echo's choice on small graphs after the paper's figures: what is run again, what is kept, and
// what the trials spend; its minimum cut against every side.
#include "memory/recompute/echo.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/print.h"
#include "memory/recompute/echo_cut.h"
#include "memory/recompute/echo_trials.h"
#include "memory/recompute/mirror_sqrt.h"
#include "ops/elementwise/activations.h"
#include "tests/memory/bits.h"
#include "tests/memory/recompute/recompute_toys.h"

namespace pal::test {
namespace {

TEST(Echo, EqualInputsAndOutputsAreNotWorthIt) {  // figures 11 and 12
  Builder b;
  Val p = heavy(b.input("x0", {Shape{64}})), q = heavy(b.input("x1", {Shape{64}}));
  Val y = affine(plus(p, q));
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  b.output("dy", reverse(y));  // as tanh's gradient reads tanh
  std::string note;
  const Program out = echo(b.program(), &note);
  EXPECT_EQ(note, "nothing to recompute");
  EXPECT_EQ(print(out), print(b.program()));
}

// T sums of one shared operand with T others, which gradients read one by one, last first.
Program shared(int count, bool small_queries) {
  Builder b;
  Val keys = heavy(b.input("x0", {Shape{64}}));
  std::vector<Val> y;
  Val total = sum(keys);
  for (int t = 0; t < count; ++t) {
    if (small_queries) {
      Val q = heavy(b.input("q" + std::to_string(t), {Shape{16}}));
      y.push_back(plus(keys, join({affine(q), affine(q), affine(q), affine(q)})));
    } else {
      y.push_back(affine(keys, float(t)));
    }
    total = plus(total, sum(y.back()));
  }
  Val d = summit(b, 1024, total);
  Builder::Within backward(b, Phase::backward);
  for (size_t t = y.size(); t-- > 0;) d = plus(d, sum(reverse(y[t])));
  b.output("d", d);
  return b.take();
}

TEST(Echo, ASharedOperandIsCountedOnce) {  // figures 8 and 13
  const Program p = shared(4, false);
  const Program out = echo(p);
  EXPECT_EQ(ops_in(out),
            "heavy sum affine sum add affine sum add affine sum add affine sum add "
            "heavy sum sum add "
            "*affine reverse sum add *affine reverse sum add *affine reverse sum add "
            "*affine reverse sum add");
  EXPECT_LT(peak_bytes(out), peak_bytes(p));
  EXPECT_EQ(reference(out, 1), reference(p, 1));
  // One alone: its operand is as large as itself.
  EXPECT_EQ(ops_in(echo(shared(1, false))), ops_in(shared(1, false)));
}

TEST(Echo, AnOperandBroadcastToManyIsStashedInTheirPlace) {  // figure 6, the attention's score
  const Program p = shared(4, true);
  const Program out = echo(p);
  const std::string piece = " *affine *affine *affine *affine *join *add reverse sum add";
  EXPECT_NE(ops_in(out).find(piece + piece + piece + piece), std::string::npos) << ops_in(out);
  EXPECT_EQ(reference(out, 1), reference(p, 1));
}

TEST(Echo, AHeavyNodeWhoseGradientNeedsItsInputIsDead) {  // figure 14d
  Builder b;
  Val y = affine(b.input("x0", {Shape{64}}));
  Val z = heavy(y);
  summit(b, 256, z);
  Builder::Within backward(b, Phase::backward);
  b.output("dw", reverse(y));
  EXPECT_EQ(ops_in(echo(b.program())), "affine heavy heavy sum sum add *affine reverse");
}

TEST(Echo, HeavyNodesAreStashedNotRunAgain) {
  Builder b;
  Val y = heavy(affine(b.input("x0", {Shape{64}})));
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  b.output("dy", reverse(y));
  EXPECT_EQ(ops_in(echo(b.program())), ops_in(b.program()));
}

// How many nodes are run again.
int clones(const Program& p, const EchoTrial& trial) {
  const StepView view(p);
  return insert_clones(view, choose_echo(view, trial), trial.near).count;
}

// y is read now, and again after `between` other nodes.
Program read_twice(int between, bool from_input) {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  Val y = affine(from_input ? x : plus(x, heavy(x)));
  Val loss = summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  Val d = sum(reverse(y));
  for (int i = 0; i < between; ++i) d = plus(d, loss);
  b.output("d", plus(d, sum(reverse(y))));
  return b.take();
}

TEST(Echo, ReadersThatAreNearShareAClone) {
  const EchoTrial trial{.near = 64, .exchange = 1e9};
  EXPECT_EQ(clones(read_twice(10, true), trial), 1);
  EXPECT_EQ(clones(read_twice(100, true), trial), 2) << "made of an input: again for each";
  EXPECT_EQ(clones(read_twice(100, false), trial), 0) << "made of a stash: kept";
}

// u and v are made of y, which nothing else reads, one soon and one after `near` nodes and more; y
// could be made of something smaller.
TEST(Echo, WhatClonesFarApartReadIsKept) {
  Builder b;
  Val h = heavy(b.input("x0", {Shape{16}}));
  Val y = join({affine(h), affine(h), affine(h), affine(h)});
  Val u = affine(y), v = affine(y);
  Val loss = summit(b, 256, plus(u, v));
  {
    Builder::Within backward(b, Phase::backward);
    Val d = sum(reverse(u));
    for (int i = 0; i < 100; ++i) d = plus(d, loss);
    b.output("d", plus(d, sum(reverse(v))));
  }
  EXPECT_EQ(clones(b.program(), {.near = 64, .exchange = 1e9}), 2) << "u and v, of the y there is";
  EXPECT_EQ(clones(b.program(), {.near = 1000, .exchange = 1e9}), 7) << "and y with its parts";
}

// A bit an element is less than what y could be made of; without bits, y is made again.
TEST(Echo, CountsOnBitsWhereTheyAreAllowed) {
  Builder b;
  Val h = heavy(b.input("x0", {Shape{16}})), dy = b.input("dy", {Shape{64}});
  Val y = relu(join({affine(h), affine(h), affine(h), affine(h)}));
  summit(b, 256, y);
  {
    Builder::Within backward(b, Phase::backward);
    b.output("dx", pass_inside(dy, y, 0, std::numeric_limits<float>::infinity()));
  }
  EXPECT_EQ(clones(b.program(), {.exchange = 1e9, .bits = false}), 6);
  EXPECT_EQ(clones(b.program(), {.exchange = 1e9, .bits = true}), 0);
}

// y, made of something smaller, and with `again` a z that is made of y; gradients read them.
Program piecewise(bool again) {
  Builder b;
  Val h = heavy(b.input("x0", {Shape{16}}));
  Val y = join({affine(h), affine(h), affine(h), affine(h)});
  Val z = again ? affine(y) : y;
  summit(b, 256, z);
  Builder::Within backward(b, Phase::backward);
  b.output("dy", reverse(y));
  if (again) b.output("dz", reverse(z));
  return b.take();
}

// In 64 bytes y costs as much as what it is made of, and nothing runs again; 128 are more. What a
// clone reads is not rounded, so rounded codes of y do not serve where z is made of it again.
TEST(Echo, CountsOnCodes) {
  const auto count = [](const Program& p, const Form& form) {
    Forms forms(p.values.size());
    for (const Node& node : p.nodes) {
      if (node.op->name == std::string("join")) forms[node.out[0]] = form;
    }
    return clones(p, {.exchange = 1e9, .forms = &forms});
  };
  const Program once = piecewise(false), twice = piecewise(true);
  const Form few{.sparse = SsdcAttrs{SsdcForm::mask, 4}};
  EXPECT_EQ(count(once, {}), 5);
  EXPECT_EQ(count(once, {.dpr = Dpr::fp16}), 5);
  EXPECT_EQ(count(once, {.dpr = Dpr::fp8}), 0);
  EXPECT_EQ(count(once, few), 0);
  EXPECT_EQ(count(once, {.sparse = SsdcAttrs{SsdcForm::mask, 40}}), 5);
  EXPECT_EQ(count(twice, {}), 6);
  EXPECT_EQ(count(twice, {.dpr = Dpr::fp8}), 6);
  EXPECT_EQ(count(twice, few), 1) << "z, of y as it was";
}

// One of its values shares bytes with what is never made again; it runs for the other all the same.
TEST(Echo, AMakerOfTwoRunsForOneOfThem) {
  static const OpDef two = [] {
    OpDef toy = toy_halves;
    toy.name = "two", toy.windows = nullptr;
    return toy;
  }();
  static const OpDef heavy_view = [] {
    OpDef toy = toy_view;
    toy.name = "heavy_view", toy.cost = toy_with_cost<1250>("heavy").cost;
    return toy;
  }();
  Builder b;
  const std::vector<Val> made = b.emit(two, {b.input("x0", {Shape{128}})});
  Val kept = b.emit1(heavy_view, {made[0]});
  summit(b, 512, kept);
  Builder::Within backward(b, Phase::backward);
  b.output("dkept", plus(reverse(kept), reverse(made[0])));
  b.output("dother", reverse(made[1]));
  EXPECT_EQ(clones(b.program(), {.exchange = 1e9}), 1);
}

// 512 bytes moved and 20 flops for each, against the 256 bytes that are saved, at four moved for
// one.
TEST(Echo, ArithmeticCostsWhatCouldBeMovedMeanwhile) {
  Builder b;
  Val y = light_product(b.input("x0", {Shape{64}}));
  summit(b, 256, y);
  {
    Builder::Within backward(b, Phase::backward);
    b.output("dy", reverse(y));
  }
  EXPECT_EQ(clones(b.program(), {.exchange = 4}), 1);
  EXPECT_EQ(clones(b.program(), {.exchange = 4, .balance = 1}), 0);
}

TEST(Echo, AChainIsCutIntoPieces) {
  Builder b;
  std::vector<Val> c{heavy(b.input("x0", {Shape{64}}))};
  Val f = b.state("f", {Shape{64}}, Role::weight);
  for (int t = 0; t < 12; ++t) c.push_back(plus(c.back(), f));
  summit(b, 2048, c.back());
  Builder::Within backward(b, Phase::backward);
  Val d = sum(c.back());
  for (size_t t = c.size(); t-- > 0;) d = plus(d, sum(reverse(c[t])));
  b.output("d", d);
  const Program p = b.take();
  const StepView view(p);
  const Clones cut = insert_clones(view, choose_echo(view, {.near = 9, .exchange = 1e9}), 9);
  const Clones whole = insert_clones(view, choose_mirror(view), 1 << 20);
  EXPECT_EQ(whole.count, 12);
  EXPECT_GT(cut.count, 5);
  EXPECT_LT(cut.count, 12);
  EXPECT_LT(peak_bytes(cut.program), peak_bytes(p));
  EXPECT_EQ(reference(cut.program, 1), reference(p, 1));
}

// Large nodes are worth the time at a price at which small ones are not, which are then run again
// as far as the time allows.
TEST(Echo, SpendsTheTimeThatItMay) {
  constexpr int64_t kSmall = 1 << 18, kLarge = 1 << 20;
  Builder b;
  std::vector<Val> y;
  for (const auto& [size, count] : {std::pair{kLarge, 20}, {kSmall, 120}}) {
    const std::string name = std::to_string(size);
    const Val f = b.state("f" + name, {Shape{size}}, Role::weight);
    const Val x = b.input("x" + name, {Shape{size}});
    for (int i = 0; i < count; ++i) y.push_back(plus(x, f));
  }
  summit(b, 8 * kLarge, y[0]);
  Builder::Within backward(b, Phase::backward);
  Val d = sum(y[0]);
  for (Val v : y) d = plus(d, sum(reverse(v)));
  b.output("d", d);
  const Program p = b.take();

  const double plain = predict(p, kEchoDevice).step_ms;
  auto overhead = [&](const Program& q) { return predict(q, kEchoDevice).step_ms / plain - 1; };
  auto within = [&](double exchange, double limit) {
    return recompute(p, Recompute::echo, footprint, nullptr,
                     {.exchange = exchange, .overhead = limit});
  };
  const Program all = within(8, 1e9);
  const StepView view(p);
  const Program large =
      insert_clones(view, choose_echo(view, {.exchange = 4, .launch_bytes = kEchoLaunch}), 64)
          .program;
  const double least = overhead(large), most = overhead(all);
  ASSERT_GT(least, 0);
  ASSERT_GT(most, least);
  ASSERT_LT(peak_bytes(all), peak_bytes(large));
  int between = 0;
  for (const EchoLevel& level : kEchoLevels) {
    if (!level.filled || level.part <= least || level.part >= most) continue;
    ++between;
    const Program q = within(8, level.part);
    EXPECT_LE(overhead(q), level.part);
    EXPECT_GT(overhead(q), level.part - 0.1 * (most - least));
    EXPECT_LT(peak_bytes(q), peak_bytes(large));
    // What is allowed counts as the next lower level.
    EXPECT_EQ(print(within(8, level.part + 1e-4)), print(q));
  }
  EXPECT_GE(between, 2) << "from " << least << " to " << most;
}

TEST(Echo, WhatIsAliveAnywayIsReadAgain) {
  Builder b;
  Val x = heavy(b.input("x0", {Shape{64}}));
  Val y = affine(x), z = affine(y), both = join({y, z});
  Val top = heavy(both);
  summit(b, 512, top);
  Builder::Within backward(b, Phase::backward);
  b.output("dboth", reverse(both));
  b.output("dy", reverse(y));
  // x alone costs 64, both 128: y, z and the join are made again from x, the view y with them.
  EXPECT_EQ(ops_in(echo(b.program())),
            "heavy affine affine join heavy heavy sum sum add "
            "*affine *affine *join reverse reverse");
  // But where the join must be kept, its parts are.
  const StepView view(b.program());
  Choice choice(b.program().values.size(), 0);
  choice[size_t(y.id)] = 1;
  EXPECT_EQ(insert_clones(view, choice, 64).count, 0);
}

TEST(MinCut, AsTryingEverySide) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const int inner = 1 + int(random() % 7), n = inner + 2;
    std::vector<std::array<int64_t, 3>> edges;
    for (int e = 0; e < 3 * n; ++e) {
      const int from = int(random() % size_t(n)), to = int(random() % size_t(n));
      if (from != to) edges.push_back({from, to, int64_t(random() % 10)});
    }
    auto cost = [&](auto side) {
      int64_t sum = 0;
      for (auto [from, to, capacity] : edges) {
        if (side(int(from)) && !side(int(to))) sum += capacity;
      }
      return sum;
    };
    int64_t least = MinCut::kInfinite;
    for (int mask = 0; mask < 1 << inner; ++mask) {
      least =
          std::min(least, cost([&](int v) {
                     return v == MinCut::kSource || (v != MinCut::kSink && (mask >> (v - 2) & 1));
                   }));
    }
    MinCut cut;
    cut.add_vertices(inner);
    for (auto [from, to, capacity] : edges) cut.add_edge(int(from), int(to), capacity);
    const std::vector<char> side = cut.source_side();
    ASSERT_FALSE(side[MinCut::kSink]);
    ASSERT_EQ(cost([&](int v) { return bool(side[size_t(v)]); }), least) << "seed " << seed;
  }
}

}  // namespace
}  // namespace pal::test
