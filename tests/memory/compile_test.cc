// Passes on updates, the compiler, its budget errors, and footprints.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/order.h"
#include "core/print.h"
#include "core/text.h"
#include "core/verify.h"
#include "memory/passes/fuse_updates.h"
#include "memory/plan/report.h"
#include "memory/schedule/schedule.h"
#include "tests/memory/running.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

// A layer each: the gradients are made one after the other, the updates come at the end.
Program layers(int count, bool gated, bool clipped = false) {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  std::vector<Val> w;
  for (int i = 0; i < count; ++i) {
    w.push_back(b.state("w" + std::to_string(i), {Shape{64}}, Role::weight));
    x = plus(x, w.back());
  }
  b.output("loss", sum(x));
  std::vector<Val> g;
  Builder::Within backward(b, Phase::backward);
  for (int i = 0; i < count; ++i) {
    g.push_back(reverse(x));
    b.program().value(g.back().id).role = Role::weight_gradient;
    x = affine(x);
  }
  if (clipped) {
    for (Val& v : g) v = affine(v, 0.25f);
  }
  Val by;
  if (gated) {
    Val norm = sum(g[0]);
    for (int i = 1; i < count; ++i) norm = plus(norm, sum(g[size_t(i)]));
    by = gate(norm);
  }
  for (int i = 0; i < count; ++i) update(w[size_t(i)], g[size_t(i)], by);
  return b.take();
}

TEST(Schedule, UpdatesFollowTheirGradients) {
  std::string note;
  const Program p = layers(3, false);
  const Program early = schedule_early_updates(p, &note);
  EXPECT_EQ(ops_of(p),
            "add add add sum reverse affine reverse affine reverse affine update update "
            "update");
  EXPECT_EQ(ops_of(early),
            "add add add sum reverse update affine reverse update affine reverse "
            "update affine");
  EXPECT_EQ(note, "3 updates moved");
  EXPECT_NO_THROW(verify(early));
  EXPECT_LT(peak_bytes(early), peak_bytes(p));
  EXPECT_EQ(reference(early, 2), reference(p, 2));
}

TEST(Schedule, ClippingByValueMovesAlong) {
  const Program p = layers(2, false, true);
  EXPECT_EQ(ops_of(schedule_early_updates(p)),
            "add add sum reverse affine update affine reverse affine update affine");
}

TEST(Schedule, AGateBlocksEarlyUpdates) {
  std::string note;
  const Program p = layers(3, true);
  const Program early = schedule_early_updates(p, &note);
  EXPECT_EQ(note, "early updates blocked by gate");
  const std::string ops = ops_of(early);
  EXPECT_GT(ops.find("update"), ops.find("gate"));
  EXPECT_NO_THROW(verify(early));
  EXPECT_EQ(reference(early, 2), reference(p, 2));
}

TEST(Schedule, NoStateIsWrittenBeforeTheLossOrBeforeItsReaders) {
  Builder b;
  Val x = b.input("x0", {Shape{8}}), w = b.state("w0", {Shape{8}}, Role::weight);
  Val g = affine(x), late = reverse(view(w)), more = plus(late, x);
  b.output("loss", sum(more));
  Val again = reverse(view(w));
  b.output("y", again);
  update(w, g);
  const Program early = schedule_early_updates(b.program());
  EXPECT_EQ(ops_of(early), "affine view reverse add sum view reverse update");
}

TEST(Schedule, RandomProgramsNeverGetWorseAndKeepTheirBits) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Program p = random_program(
        seed, {.nodes = 40, .states = 4, .copies = seed % 5 == 0, .gated = seed % 3 == 0});
    const Program early = schedule_early_updates(p);
    ASSERT_NO_THROW(verify(early)) << "seed " << seed;
    ASSERT_LE(peak_bytes(early), peak_bytes(p)) << "seed " << seed;
    ASSERT_EQ(reference(early, 2), reference(p, 2)) << "seed " << seed;
  }
}

TEST(FuseUpdates, AdjacentOnesBecomeOneNode) {
  std::string note;
  const Program p = layers(3, false);
  const Program fused = fuse_updates(p, &note).value();
  EXPECT_EQ(ops_of(fused), "add add add sum reverse affine reverse affine reverse affine update");
  EXPECT_EQ(fused.nodes.back().in.size(), 9u) << "three groups of operands";
  EXPECT_EQ(note, "3 nodes fused into 1");
  EXPECT_NO_THROW(verify(fused));
  EXPECT_EQ(peak_bytes(fused), peak_bytes(p));
  EXPECT_EQ(reference(fused, 3), reference(p, 3));
  EXPECT_FALSE(fuse_updates(schedule_early_updates(p), &note));
  EXPECT_EQ(note, "nothing to fuse") << "early updates stand alone";
}

TEST(FuseUpdates, BelongToWhatAllOfThemBelongTo) {
  for (const bool apart : {false, true}) {
    Program p = layers(3, false);
    p.scopes = {"", "layer0", "layer1"};
    int updates = 0;
    for (Node& node : p.nodes) {
      if (!node.op->writes_state) continue;
      node.scope = apart && updates == 2 ? 2 : 1;
      node.step = apart && updates == 1 ? 5 : 4;
      ++updates;
    }
    const Node& fused = fuse_updates(p).value().nodes.back();
    EXPECT_EQ(fused.scope, apart ? 0 : 1);
    EXPECT_EQ(fused.step, apart ? int32_t(kNone) : 4);
  }
}

TEST(FuseUpdates, NotAcrossADependency) {
  Builder b;
  Val x = b.input("x0", {Shape{8}});
  Val w = b.state("w0", {Shape{8}}, Role::weight), v = b.state("w1", {Shape{8}}, Role::weight);
  b.output("loss", sum(x));
  Val w1 = update(w, x);
  update(v, w1);  // reads what the first one wrote
  update(w1, x);  // writes what the second one read
  EXPECT_FALSE(fuse_updates(b.program()));
}

TEST(FuseUpdates, RandomProgramsKeepTheirBits) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Program p = random_program(
        seed, {.nodes = 20, .states = 5, .copies = seed % 4 == 0, .gated = seed % 3 == 0});
    const Program fused = fuse_updates(p).value_or(p);
    ASSERT_NO_THROW(verify(fused)) << "seed " << seed;
    ASSERT_LE(peak_bytes(fused), peak_bytes(p));
    ASSERT_EQ(reference(fused, 2), reference(p, 2)) << "seed " << seed;
  }
}

TEST(Compile, EveryOptionGivesTheSameBits) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Program p = random_program(seed, {.nodes = 50, .copies = seed % 2 == 1});
    const Results expected = reference(p, 2);
    for (int bits = 0; bits < 16; ++bits) {
      KernelCache cache{Device{}};
      StateLayout layout(p);
      Compiled c = compile(p, cache, layout,
                           {.inplace = bool(bits & 1),
                            .windows = bool(bits & 2),
                            .schedule = Schedule(bits >> 2 & 1),
                            .fuse_updates = bool(bits & 8)});
      Ready r(c.program);
      r.storages = c.storages;
      Arena arena(c.plan);
      StaticPlan memory(r.storages, c.plan, arena);
      ASSERT_EQ(run_with(r, memory, 2), expected) << "seed " << seed << " options " << bits;
    }
  }
}

// The driver keeps a pass's result only where the pass's rule allows it.
TEST(Compile, WhatWouldRaiseThePeakIsUndone) {
  int kept = 0, undone = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Program p = random_program(seed, {.nodes = 60});
    for (NodeId n : p.nodes.ids()) {
      Node& node = p.node(n);
      if (node.op->writes_state) {
        node.phase = Phase::update;
      } else if (seed % 3 == 0 ? n % 3 == 1 : n >= p.node_count() / 2) {
        node.phase = Phase::backward;
      }
    }
    KernelCache cache{Device{}};
    const Compiled c = compile(p, cache, StateLayout(p), {.inplace = seed % 2 == 0});
    for (const PassReport& pass : c.passes) {
      if (pass.name != "delay" && pass.name != "fuse_updates") continue;
      ASSERT_LE(pass.after_bytes, pass.before_bytes) << "seed " << seed << " " << pass.name;
      const bool was_undone = pass.note.starts_with("undone: the step would need ");
      if (pass.name == "delay") ++(was_undone ? undone : kept);
      if (was_undone) {
        ASSERT_EQ(pass.after_bytes, pass.before_bytes);
      }
    }
  }
  EXPECT_GT(kept, 10);
  EXPECT_GT(undone, 10);
}

TEST(Compile, PassesRefuseSeveralQueues) {
  Program p = random_program(1, {.nodes = 50, .two_queues = true});
  ASSERT_EQ(queue_count(p), 2);
  KernelCache cache{Device{}};
  EXPECT_NE(message_of<ProgramError>([&] {
              compile(p, cache, StateLayout(p));
            }).find("assign_queues makes several"),
            std::string::npos);
}

TEST(Compile, ReportsItsPasses) {
  const Program p = layers(4, false);
  KernelCache cache{Device{}};
  Compiled c = compile(p, cache, StateLayout(p));
  std::vector<std::string> names;
  for (auto& pass : c.passes) names.push_back(pass.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"schedule", "fuse_updates", "layouts", "inplace", "place"}));
  for (auto& pass : c.passes) EXPECT_GT(pass.seconds, 0) << pass.name;
  EXPECT_LT(c.passes[0].after_bytes, c.passes[0].before_bytes);
  EXPECT_LE(c.passes[3].after_bytes, c.passes[3].before_bytes);
  EXPECT_EQ(c.passes[3].note, "7 values in place, 0 windows");
  EXPECT_EQ(c.passes[4].after_bytes, c.plan.device().bytes);
  EXPECT_NE(to_string(c.passes[0]).find("4 updates moved"), std::string::npos);
  EXPECT_EQ(c.kernels.size(), c.program.nodes.size());
}

// Late updates wait to be fused, among nodes that have been put in an order: without either they
// wait for nothing.
TEST(Compile, PassesThatAreOffAreNotRun) {
  Program p = random_network(3, {.layers = 6});
  KernelCache cache{Device{}};
  const auto has = [&](const char* name, CompileOptions options) {
    const Compiled c = compile(p, cache, StateLayout(p), options);
    return std::any_of(c.passes.begin(), c.passes.end(),
                       [&](const PassReport& pass) { return pass.name == name; });
  };
  ASSERT_TRUE(has("late_updates", {}));
  EXPECT_FALSE(has("late_updates", {.late_updates = false}));
  EXPECT_FALSE(has("late_updates", {.fuse_updates = false}));
  EXPECT_FALSE(has("late_updates", {.schedule = Schedule::program}));
  EXPECT_FALSE(has("schedule", {.schedule = Schedule::program}));
  EXPECT_FALSE(has("fuse_updates", {.fuse_updates = false}));
  EXPECT_FALSE(has("layouts", {.layouts = false}));
}

TEST(Compile, ABudgetThatCannotBeMetSaysWhy) {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  for (int i = 0; i < 4; ++i)
    update(b.state("w" + std::to_string(i), {Shape{64}}, Role::weight), x);
  // The peak, in any order, is at a large value that may be in place.
  b.output("loss", sum(affine(join({reverse(x), affine(x), reverse(x), affine(x)}))));
  Program p = b.take();
  std::rotate(p.nodes.begin(), p.nodes.begin() + 4, p.nodes.end());  // updates after the loss
  p.relink();
  KernelCache cache{Device{}};
  const StateLayout layout(p);
  const int64_t needs = compile(p, cache, layout).plan.device().bytes;
  EXPECT_NO_THROW(compile(p, cache, layout, {.budget = needs}));
  const std::string message = message_of<BudgetError>(
      [&] { compile(p, cache, layout, {.inplace = false, .budget = needs - 100}); });
  EXPECT_NE(message.find("over the budget of"), std::string::npos) << message;
  EXPECT_NE(message.find("the largest alive at the peak: "), std::string::npos) << message;
  EXPECT_NE(message.find("memory.inplace: true"), std::string::npos) << message;
  const std::string state =
      message_of<BudgetError>([&] { compile(p, cache, layout, {.budget = 100}); });
  EXPECT_NE(state.find("state and inputs alone are 1.54 kB"), std::string::npos) << state;
  try {
    compile(p, cache, layout, {.budget = 100});
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code, kExitBudget);
  }
}

TEST(Report, RolesAndLayersAddUpToThePeak) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Program p = random_program(seed, {.nodes = 50, .copies = seed % 2 == 1});
    KernelCache cache{Device{}};
    Compiled c = compile(p, cache, StateLayout(p));
    const Footprint f = footprint_of(c.program, c.storages, c.plan);
    ASSERT_EQ(std::accumulate(f.by_role.begin(), f.by_role.end(), int64_t{0}), f.lower_bound);
    int64_t layers_bytes = 0;
    for (auto& layer : f.layers) layers_bytes += layer.bytes;
    ASSERT_EQ(layers_bytes, f.lower_bound);
    ASSERT_EQ(f.arena, c.plan.device().bytes);
    int64_t state = 0;
    for (auto& slot : p.state) state += align_up(p.value(slot.start).spec.bytes());
    ASSERT_EQ(f.of(Role::weight), state);
  }
}

TEST(Report, ScopesAndBytes) {
  Builder b;
  Val x = b.input("x0", {Shape{250}});
  {
    Builder::Within scope(b, "encoder");
    x = reverse(x);
  }
  b.output("y", x);
  Program p = b.take();
  KernelCache cache{Device{}};
  Compiled c = compile(p, cache, StateLayout(p));
  const Footprint f = footprint_of(c.program, c.storages, c.plan);
  ASSERT_EQ(f.layers.size(), 3u);
  EXPECT_EQ(f.layers[0].type, "input");
  EXPECT_EQ(f.layers[0].bytes, 2048);
  EXPECT_EQ(f.layers[1].scope, "encoder");
  EXPECT_EQ(f.of(Role::workspace), 1024);
  EXPECT_EQ(format_bytes(640), "640 B");
  EXPECT_EQ(format_bytes(1'420'000'000), "1.42 GB");
  EXPECT_EQ(format_bytes(12'040'000), "12.0 MB");
  EXPECT_EQ(format_bytes(999'900'000), "1.00 GB");
}

}  // namespace
}  // namespace pal::test
