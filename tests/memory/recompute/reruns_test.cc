// Reruns named one by one: what is inserted, which versions are read, and the same bits.
#include "memory/recompute/reruns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/error.h"
#include "memory/compile.h"
#include "memory/passes/parts.h"
#include "memory/schedule/delay_forward.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/recompute/recompute_toys.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

// "affine(v0) v1; ..." of the nodes of a phase, or all.
std::string listed(const Program& p) {
  std::string out;
  for (const Node& node : p.nodes) {
    if (!out.empty()) out += "; ";
    if (node.phase == Phase::recompute) out += "again ";
    out += node.op->name;
    for (ValueId v : present(node.in)) out += " " + std::to_string(v);
    out += " ->";
    for (ValueId v : present(node.out)) out += " " + std::to_string(v);
  }
  return out;
}

// x -> a -> c forward; g reads c, then h reads a.
struct Chained {
  Builder b;
  Val x = b.input("x", {Shape{8}}), a = affine(x), c = reverse(a), loss = sum(c);
  Val g, h;

  Chained() {
    b.output("loss", loss);
    Builder::Within backward(b, Phase::backward);
    g = plus(c, c), h = plus(g, a);
    b.output("h", sum(plus(h, c)));
  }
};

TEST(Reruns, ReadersReadWhatWasMadeLast) {
  Chained step;
  const Val a = step.a, c = step.c, g = step.g, h = step.h;
  const Program p = step.b.take();
  const StepView view(p);
  const int first = int(p.values.size());
  const auto number = [](Val v) { return std::to_string(v.id); };
  // c is made again for g from an a that is made for it, and once more from another for what reads
  // it last.
  const Clones clones =
      insert_reruns(view, {{a.id, g.id}, {c.id, g.id}, {a.id, h.id}, {c.id, ValueId(h.id + 1)}});
  EXPECT_EQ(clones.count, 4);
  const std::string text = listed(clones.program);
  const auto made = [&](int i) { return std::to_string(first + i); };
  EXPECT_NE(text.find("again affine 0 -> " + made(0) + "; again reverse " + made(0) + " -> " +
                      made(1) + "; add " + made(1) + " " + made(1) + " -> " + number(g) +
                      "; again affine 0 -> " + made(2) + "; add " + number(g) + " " + made(2) +
                      " -> " + number(h) + "; again reverse " + made(2) + " -> " + made(3) +
                      "; add " + number(h) + " " + made(3)),
            std::string::npos)
      << text;
}

TEST(Reruns, WhatNobodyReadsIsLeftOut) {
  Chained step;
  const Val a = step.a, c = step.c, g = step.g, h = step.h;
  const Program p = step.b.take();
  const StepView view(p);
  // The first c is made anew before anybody reads it; the a for it is read by h all the same.
  const Clones clones = insert_reruns(view, {{a.id, g.id}, {c.id, g.id}, {c.id, g.id}});
  EXPECT_EQ(clones.count, 2) << listed(clones.program);
  EXPECT_EQ(insert_reruns(view, {}).count, 0);
  EXPECT_EQ(insert_reruns(view, {{a.id, ValueId(h.id + 1)}}).count, 0);
}

TEST(Reruns, WrongOnesAreRefused) {
  Chained step;
  const Val a = step.a, c = step.c, g = step.g, h = step.h, x = step.x;
  const Program p = step.b.take();
  const StepView view(p);
  const auto refused = [&](std::vector<Rerun> reruns) {
    EXPECT_THROW(insert_reruns(view, reruns), UsageError);
  };
  refused({{a.id, h.id}, {c.id, g.id}});                 // out of order
  refused({{g.id, h.id}});                               // of the backward phase
  refused({{a.id, c.id}});                               // before a node of the forward phase
  refused({{x.id, g.id}});                               // an input
  refused({{ValueId(int32_t(p.values.size())), g.id}});  // unknown
  refused({{a.id, kNone}});
}

// Any list of reruns, however little sense it makes: the same losses, gradients and weights.
TEST(Reruns, SameBitsOnRandomNetworks) {
  KernelCache cache{Device{}};
  int64_t inserted = 0, twice = 0;
  const uint64_t networks = networks_asked(60);
  for (uint64_t seed = 0; seed < networks; ++seed) {
    std::mt19937_64 random(seed);
    const Program step = random_network(seed, {.layers = 6 + int(seed % 9)});
    CompileOptions options{.recompute = Recompute::reruns};
    options.schedule = seed % 3 ? Schedule::lifetime : Schedule::program;
    const auto delayed = options.schedule == Schedule::program ? std::nullopt : delay_forward(step);
    const Program parts = split_parts(delayed ? *delayed : step);
    const StepView view(parts);
    std::vector<NodeId> again, readers;
    for (NodeId n : parts.nodes.ids()) {
      if (view.clonable[n]) again.push_back(n);
      if (parts.node(n).phase == Phase::backward) readers.push_back(n);
    }
    std::vector<std::pair<NodeId, NodeId>> places;
    for (int i = 0; i < 40; ++i) {
      const NodeId reader = readers[random() % readers.size()];
      const NodeId node = again[random() % again.size()];
      if (node < reader) places.emplace_back(reader, node);
    }
    std::sort(places.begin(), places.end());
    const auto made = [&](NodeId n) { return *present(parts.node(n).out).begin(); };
    for (const auto& [before, node] : places) {
      options.recompute_options.reruns.push_back({made(node), made(before)});
    }
    const StateLayout layout(step);
    const Bits expected = bits_of(compile(step, cache, layout, {}));
    const Compiled c = compile(step, cache, layout, options);
    ASSERT_EQ(difference_of(step, expected, bits_of(c)), "") << "seed " << seed;
    std::map<std::pair<const OpDef*, std::vector<ValueId>>, int> origins;
    for (const Node& node : c.program.nodes) {
      if (node.phase != Phase::recompute) continue;
      ++inserted;
      std::vector<ValueId> key;
      for (ValueId v : present(node.out)) key.push_back(c.program.value(v).origin);
      twice += ++origins[{node.op, key}] > 1;
    }
  }
  EXPECT_GT(inserted, int64_t(networks) * 3);
  EXPECT_GT(twice, 10);
}

}  // namespace
}  // namespace pal::test
