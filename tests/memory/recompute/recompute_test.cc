// Recomputation: where clones go, what mirror and sqrt choose, and that no method ever changes a
// bit or raises the peak.
#include "memory/recompute/recompute.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "core/order.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/recompute/clone_regions.h"
#include "memory/recompute/clones.h"
#include "memory/recompute/mirror_sqrt.h"
#include "tests/memory/bits.h"
#include "tests/memory/recompute/recompute_toys.h"

namespace pal::test {
namespace {

TEST(Recompute, NothingReadsStateThatWasWritten) {
  Builder b;
  Val w = b.state("w0", {Shape{64}}, Role::weight);
  Val x = b.input("x0", {Shape{64}});
  Val y = plus(x, w);
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  Val g = reverse(x);
  update(w, g);
  b.output("dy", reverse(y));  // after the update: a clone of y would see the new w
  for (Recompute m : {Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    const Program out = recompute(b.program(), m, footprint);
    EXPECT_EQ(ops_in(out), ops_in(b.program())) << to_string(m);
  }
}

// State, inputs, outputs, and all that lies in them; what no node makes.
TEST(StepView, WhatLiesInWhatIsKeptStays) {
  int views = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Program p = random_program(seed, {.nodes = 40, .states = 3});
    const StepView view(p);
    const Storages storages = assign_storages(p, {}, {.inplace = false});
    for (ValueId v : p.values.ids()) {
      const Storage& storage = storages[storages.of[v]];
      const bool kept = storage.persistent || storage.input || storage.output;
      if (!kept && p.value(v).producer != kNone) continue;
      EXPECT_TRUE(view.pinned[v]) << seed << " " << v;
      views += storage.input && p.value(v).producer != kNone;
    }
  }
  EXPECT_GT(views, 10);
}

// Three regions apart; what each saves for its time decides, whatever the units.
TEST(CloneRegions, ComeByWhatTheySaveForTheirTime) {
  Builder b;
  const int64_t sizes[] = {256, 2048, 1024};
  std::vector<Val> maps;
  for (size_t i = 0; i < std::size(sizes); ++i) {
    maps.push_back(affine(b.input("x" + std::to_string(i), {Shape{sizes[i]}})));
  }
  Builder::Within backward(b, Phase::backward);
  for (size_t i = 0; i < maps.size(); ++i) b.output("y" + std::to_string(i), reverse(maps[i]));
  const Program p = b.take();
  const StepView view(p);
  const Choice none(p.values.size(), 0);
  Choice all = none;
  for (const Val map : maps) all[map.id] = 1;
  const auto order = [&](std::vector<double> ms) {
    ms.resize(p.nodes.size(), 0);
    return nodes_by_worth(view, ByNode<double>(ms.begin(), ms.end()), none, all);
  };
  for (const double unit : {1e-3, 1.0, 1e3}) {
    EXPECT_EQ(order({1 * unit, 16 * unit, 2 * unit}), (std::vector<NodeId>{2, 0, 1}));
    EXPECT_EQ(order({8 * unit, 8 * unit, 8 * unit}), (std::vector<NodeId>{1, 2, 0}));
    EXPECT_EQ(order({1 * unit, 16 * unit, 16 * unit}), (std::vector<NodeId>{0, 1, 2}));
  }
}

TEST(Recompute, MirrorRunsAllThatIsCheap) {
  Builder b;
  Val p = heavy(b.input("x0", {Shape{64}}));
  Val y = affine(affine(p));
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  b.output("dy", reverse(y));
  const StepView view(b.program());
  EXPECT_EQ(ops_in(insert_clones(view, choose_mirror(view), 1 << 20).program),
            "heavy affine affine heavy sum sum add *affine *affine reverse");
  std::string note;
  const Program out = recompute(b.program(), Recompute::mirror, footprint, &note);
  EXPECT_EQ(note.find("undone: with 2 nodes recomputed"), 0u) << note;
  EXPECT_EQ(print(out), print(b.program()));
}

TEST(Recompute, EchoRunsLightProductsAgainAndMirrorDoesNot) {
  Builder b;
  Val y = light_product(b.input("x0", {Shape{64}}));
  summit(b, 256, y);
  Builder::Within backward(b, Phase::backward);
  b.output("dy", reverse(y));
  const Program p = b.take();
  EXPECT_EQ(print(recompute(p, Recompute::mirror, footprint)), print(p));
  EXPECT_NE(ops_in(echo(p)).find("*light_product"), std::string::npos) << ops_in(echo(p));
}

TEST(Recompute, SqrtKeepsWhatCrossesSegments) {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  std::vector<Val> y{affine(x)};
  for (int i = 1; i < 15; ++i) y.push_back(affine(y.back()));
  b.output("loss", sum(y.back()));  // 16 forward nodes: four segments of four
  Builder::Within backward(b, Phase::backward);
  Val d = sum(y.back());
  for (size_t i = y.size(); i-- > 0;) d = plus(d, sum(reverse(y[i])));
  b.output("d", d);
  const Program p = b.take();
  const StepView view(p);
  const Choice choice = choose_sqrt(view);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(choice[size_t(y[i].id)], i % 4 != 3) << i;
  const Clones out = insert_clones(view, choice, 1 << 20);
  EXPECT_EQ(out.count, 12);
  EXPECT_LT(peak_bytes(out.program), peak_bytes(p));
  EXPECT_EQ(reference(out.program, 1), reference(p, 1));
}

// The second half of a random program as its backward pass.
Program random_step(uint64_t seed, bool copies) {
  Program p = random_program(seed, {.nodes = 60, .states = 3, .copies = copies});
  for (NodeId n = p.node_count() / 2; n < p.node_count(); ++n) {
    if (p.node(n).phase == Phase::forward) p.node(n).phase = Phase::backward;
  }
  for (Node& node : p.nodes) {
    if (node.op->writes_state) node.phase = Phase::update;
  }
  return p;
}

TEST(Recompute, RandomProgramsKeepTheirBitsAndTheirPeak) {
  int changed = 0, undone = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Program p = random_step(seed, seed % 10 == 0);
    const Results expected = reference(p, 2);
    for (Recompute m : {Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
      std::string note;
      // 0.1: some of the toys are heavy.
      const Program out = recompute(
          p, m, footprint, &note, {.heavy = seed % 2 ? 12 : 0.1, .exchange = 1e9, .overhead = 1e9});
      ASSERT_NO_THROW(verify(out)) << "seed " << seed << " " << to_string(m);
      ASSERT_LE(peak_bytes(out), peak_bytes(p)) << "seed " << seed << " " << to_string(m);
      ASSERT_EQ(reference(out, 2), expected) << "seed " << seed << " " << to_string(m);
      changed += out.nodes.size() > p.nodes.size(), undone += note.find("undone") == 0;
    }
    const StepView view(p);  // and whatever is chosen
    std::mt19937_64 random(seed);
    Choice any(p.values.size());
    for (char& c : any) c = char(random() % 2);
    const Program out = insert_clones(view, any, NodeId(random() % 20)).program;
    ASSERT_NO_THROW(verify(out)) << "seed " << seed;
    ASSERT_EQ(reference(out, 2), expected) << "seed " << seed;
  }
  EXPECT_GT(changed, 30);
  EXPECT_GT(undone, 30);
}

TEST(Recompute, CompiledStepsGiveTheSameBits) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Program p = random_step(seed, false);
    const Results expected = reference(p, 2);
    for (int bits = 0; bits < 12; ++bits) {
      KernelCache cache{Device{}};
      const StateLayout layout(p);
      CompileOptions options{.inplace = bool(bits & 1),
                             .recompute = Recompute(1 + bits / 4),
                             .schedule = Schedule(bits >> 1 & 1)};
      Compiled c = compile(p, cache, layout, options);
      const PassReport& first = c.passes[c.passes[0].name == "delay" ? 1 : 0];
      EXPECT_EQ(first.name, to_string(options.recompute));
      if (options.schedule == Schedule::program) {  // else judged by what scheduling leaves of it
        EXPECT_LE(first.after_bytes, first.before_bytes);
      }
      Ready r(c.program);
      r.storages = c.storages;
      Arena arena(c.plan);
      StaticPlan memory(r.storages, c.plan, arena);
      ASSERT_EQ(run_with(r, memory, 2), expected) << "seed " << seed << " options " << bits;
    }
  }
}

}  // namespace
}  // namespace pal::test
