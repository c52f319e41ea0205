// The schedule pass: the simulator, list schedules, local moves, the papers' figures, chunked
// losses.
#include "memory/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/print.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/place/first_fit.h"
#include "memory/place/place.h"
#include "memory/schedule/list.h"
#include "memory/schedule/moves.h"
#include "memory/schedule/order_graph.h"
#include "memory/schedule/order_peak.h"
#include "ops/elementwise/add.h"
#include "ops/losses/cross_entropy.h"
#include "ops/products/matmul.h"
#include "ops/sums/gates.h"
#include "ops/tensors/transfers.h"
#include "ops/tensors/views.h"
#include "tests/memory/dags.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

std::vector<NodeId> recorded(const Program& p) {
  std::vector<NodeId> order(p.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

int64_t true_peak(const Program& p, const StorageOptions& options,
                  const ByNode<int64_t>& workspace = {}) {
  const Storages storages = assign_storages(p, workspace, options);
  return peak_of(storages, lifetimes_of(p, storages)).bytes;
}

ByNode<int64_t> permuted(const ByNode<int64_t>& bytes, const std::vector<NodeId>& order) {
  ByNode<int64_t> out;
  for (NodeId n : order) out.push_back(bytes[size_t(n)]);
  return out;
}

// The storages before in-place decisions are the same in this order: no value that is gathered
// twice has come to lie elsewhere.
bool same_windows(const Program& a, const Program& b, bool windows) {
  const Storages s = assign_storages(a, {}, {.inplace = false, .windows = windows});
  const Storages t = assign_storages(b, {}, {.inplace = false, .windows = windows});
  for (size_t v = 0; v < s.of.size(); ++v) {
    if (s.offset[v] != t.offset[v]) return false;
    if (s.of[v] != kNone && s.values_of(s.of[v]).size() != t.values_of(t.of[v]).size())
      return false;
  }
  return true;
}

TEST(OrderPeak, IsThePeakOfThePermutedProgram) {
  int compared = 0, total = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Program p = seed % 4 == 3 ? random_dag(seed, 30, seed % 8 == 3)
                                    : random_program(seed, {.nodes = 40, .gated = seed % 3 == 0});
    KernelCache cache{Device{}};
    const ByNode<int64_t> workspace = workspace_bytes(prepare_all(p, cache));
    const StorageOptions options{.inplace = seed % 5 != 0, .windows = seed % 7 != 0};
    const OrderGraph graph(p, workspace, options);
    OrderPeak peak(graph);
    EXPECT_EQ(peak(recorded(p)), true_peak(p, options, workspace)) << "seed " << seed;
    const auto before = dependencies_of(p);
    std::mt19937_64 random(seed);
    for (int k = 0; k < 5; ++k) {
      const std::vector<NodeId> order = random_order(before, random);
      ASSERT_TRUE(is_order(graph, order));
      const Program q = pal::permuted(p, order);
      ASSERT_NO_THROW(verify(q)) << "seed " << seed;
      ++total;
      if (!same_windows(p, q, options.windows)) continue;
      ++compared;
      const ByNode<int64_t> moved = permuted(workspace, order);
      ASSERT_EQ(peak(order), true_peak(q, options, moved)) << "seed " << seed << "\n" << print(q);
      const Storages storages = assign_storages(q, moved, options);
      const std::vector<int64_t> live = live_bytes(q, storages, lifetimes_of(q, storages));
      for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(peak.live()[i], live[2 * i]) << i;
    }
  }
  EXPECT_GT(compared, total * 3 / 4) << "of " << total;
}

// What is not counted still decides what may be written over it.
TEST(OrderPeak, CountsMapsAloneAsThePeakDoes) {
  int fewer = 0, in_place = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Program p = random_program(seed, {.nodes = 40, .gated = seed % 3 == 0});
    std::mt19937_64 random(seed);
    for (Value& value : p.values) {  // some of what nodes make is no map
      if (value.producer != kNone && random() % 3 == 0) value.role = Role::weight_gradient;
    }
    KernelCache cache{Device{}};
    const ByNode<int64_t> workspace = workspace_bytes(prepare_all(p, cache));
    const StorageOptions maps{.inplace = seed % 5 != 0, .maps_alone = true};
    StorageOptions all = maps;
    all.maps_alone = false;
    const int64_t bytes = true_peak(p, maps, workspace);
    EXPECT_LE(bytes, true_peak(p, all, workspace)) << "seed " << seed;
    fewer += bytes < true_peak(p, all, workspace);
    in_place += bytes < true_peak(p, {.inplace = false, .maps_alone = true});
    const OrderGraph graph(p, workspace, maps);
    OrderPeak peak(graph);
    EXPECT_EQ(peak(recorded(p)), bytes) << "seed " << seed;
    const std::vector<NodeId> order = random_order(dependencies_of(p), random);
    const Program q = pal::permuted(p, order);
    if (!same_windows(p, q, true)) continue;
    EXPECT_EQ(peak(order), true_peak(q, maps, permuted(workspace, order))) << "seed " << seed;
  }
  EXPECT_GT(fewer, 150);
  EXPECT_GT(in_place, 15);
}

TEST(OrderPeak, EveryReaderOfOldStateComesBeforeItsWriter) {
  Builder b;
  Val x = b.input("x0", {Shape{8}}), w = b.state("w0", {Shape{8}}, Role::weight);
  Val early = view(w), seen = affine(early);  // reads the old bytes
  b.output("loss", sum(seen));
  update(w, x);
  Val late = reverse(early);  // a copy, then: comes after in the program
  b.output("y", late);
  const auto before = dependencies_of(b.program());
  EXPECT_EQ(before[3], (std::vector<NodeId>{0, 1, 2}));
  EXPECT_EQ(before[4], (std::vector<NodeId>{0}));
}

TEST(ListSchedule, EveryRuleGivesAnOrder) {
  using Pick = ListRule::Pick;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Program p = seed % 2 ? random_dag(seed, 40, seed % 4 == 1)
                               : random_program(seed, {.nodes = 40, .gated = seed % 3 == 0});
    const OrderGraph graph(p, {}, {});
    for (Pick pick : {Pick::guide, Pick::depth, Pick::breadth, Pick::bytes}) {
      for (int bits = 0; bits < 4; ++bits) {
        const ListRule rule{.pick = pick, .from_end = bool(bits & 1), .eager = bool(bits & 2)};
        const std::vector<NodeId> order = list_schedule(graph, rule, recorded(p));
        ASSERT_TRUE(is_order(graph, order)) << "seed " << seed;
        if (pick == Pick::guide && !rule.eager) {
          EXPECT_EQ(order, recorded(p));
        }
      }
    }
  }
}

// Three branches of a large value that shrinks; greedy runs each to its end before the next.
TEST(ListSchedule, WhatFreesRunsAtOnceAndWhatAllocatesAsLateAsItCan) {
  Builder b;
  Val x = b.input("x0", {Shape{16}});
  std::vector<Val> large, small;
  for (int i = 0; i < 3; ++i) large.push_back(mix(b, {x}, 10));                // 0 1 2
  for (int i = 0; i < 3; ++i) small.push_back(mix(b, {large[size_t(i)]}, 1));  // 3 4 5
  b.output("loss", mix(b, small, 1));
  const Program p = b.take();
  const OrderGraph graph(p, {}, {});
  OrderPeak peak(graph);
  const int64_t base = 2 * 64;  // the input's two slots
  EXPECT_EQ(peak(recorded(p)), base + 64 * 31);
  EXPECT_EQ(peak.live()[2], base + 64 * 30);
  const std::vector<NodeId> eager = list_schedule(graph, {.eager = true}, recorded(p));
  EXPECT_EQ(eager, (std::vector<NodeId>{0, 3, 1, 4, 2, 5, 6}));
  const std::vector<NodeId> late =
      list_schedule(graph, {.from_end = true, .eager = true}, recorded(p));
  EXPECT_EQ(late, eager);
  EXPECT_EQ(peak(eager), base + 64 * 13);
  std::string note;
  const Program out = schedule(p, Schedule::lifetime, &note);
  EXPECT_EQ(note, "eager");
  EXPECT_EQ(peak_bytes(out), base + 64 * 13);
}

TEST(Moves, TheirPeakNeverRises) {
  int made = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Program p = random_dag(seed, 40, seed % 2);
    const OrderGraph graph(p, {}, {});
    OrderPeak peak(graph);
    std::mt19937_64 random(seed);
    std::vector<NodeId> order = random_order(dependencies_of(p), random);
    const int64_t before = peak(order);
    const MovesEffect effect = move_at_peak(graph, peak, order, 100);
    ASSERT_TRUE(is_order(graph, order));
    ASSERT_LE(peak(order), before);
    ASSERT_LE(effect.tried, 100);
    made += effect.made;
  }
  EXPECT_GT(made, 400);
}

TEST(Schedule, NeverLosesToProgramOrder) {
  int64_t lower = 0, lowest = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const int nodes = 10 + int(seed % 31);
    const Program p =
        seed % 4 < 2
            ? random_dag(seed, nodes, seed % 4)
            : random_program(
                  seed,
                  {.nodes = nodes, .states = 4, .copies = seed % 20 == 2, .gated = seed % 3 == 0});
    const StorageOptions options{.inplace = seed % 5 != 0};
    const int64_t before = true_peak(p, options);
    for (Schedule method : {Schedule::lifetime, Schedule::exact}) {
      if (method == Schedule::exact && p.node_count() > 24) continue;
      const Program out = schedule(p, method, nullptr, {}, options);
      ASSERT_NO_THROW(verify(out)) << "seed " << seed;
      const int64_t after = true_peak(out, options);
      ASSERT_LE(after, before) << "seed " << seed;
      (method == Schedule::exact ? lowest : lower) += after < before;
      if (seed % 20 < 3) {
        ASSERT_EQ(reference(out, 2), reference(p, 2)) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(lower, 1000);
  EXPECT_GT(lowest, 200);
}

TEST(Schedule, ClonesRunRightBeforeTheirFirstReader) {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  Val y = reverse(x), z = reverse(y);
  b.output("loss", sum(z));
  auto in_phase = [&](Phase phase, auto make) {
    Builder::Within within(b, phase);
    return make();
  };
  Val again = in_phase(Phase::recompute, [&] { return reverse(x); });  // 3, long before 6
  Val g = in_phase(Phase::backward, [&] { return reverse(z); });
  Val h = in_phase(Phase::backward, [&] { return reverse(g); });
  b.output("g", in_phase(Phase::backward, [&] { return test::plus(h, again); }));
  const Program p = b.take();
  const OrderGraph graph(p, {}, {});
  EXPECT_EQ(with_late_clones(graph, recorded(p)), (std::vector<NodeId>{0, 1, 2, 4, 5, 3, 6}));
  const Program out = schedule(p, Schedule::lifetime);
  for (NodeId n = 0; n < out.node_count(); ++n) {
    if (out.node(n).phase != Phase::recompute) continue;
    EXPECT_EQ(readers_of(out)[size_t(out.node(n).out[0])][0], n + 1);
  }
}

TEST(Schedule, AGateIsNamedByItsOption) {
  Builder b;
  Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val w = b.state("w", {Shape{64, 64}}, Role::weight), x = b.input("x", {Shape{64, 64}});
  Val loss = sum(matmul(x, w));
  b.output("loss", loss);
  Val t = b.input("t", {Shape{64}, DType::i32});
  const std::vector<Val> g = differentiate(b, cross_entropy(matmul(x, w), t, scalars).loss, {w});
  Val gate = clip_norm_gate(scalars, loss, {sum_of_squares(g[0])}, {.max_norm = 1});
  const Val weights[] = {w};
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, weights, g, scalars, gate);
  std::string note;
  schedule(b.program(), Schedule::lifetime, &note);
  EXPECT_NE(note.find("early updates blocked by clip_norm"), std::string::npos) << note;
  EXPECT_EQ(note.find("clip_norm_gate"), std::string::npos) << note;
}

// OLLA, Figure 3: v2 and v3 are both ready, one leaves little of what v1 made, the other more;
// running v2 before v3 needs less. (Sizes are ours: in the text there are none.)
TEST(Olla, Figure3) {
  Builder b;
  std::vector<Val> e = mix2(b, {b.input("x0", {Shape{16}})}, 10, 2);  // v1
  Val e4 = mix(b, {e[1]}, 8);  // v3: a small one in, a large one out
  Val e3 = mix(b, {e[0]}, 1);  // v2: a large one in, a small one out
  b.output("loss", mix(b, {e3, e4}, 1));
  const Program p = b.take();
  EXPECT_EQ(peak_bytes(p), 64 * (2 + 10 + 2 + 8));
  for (Schedule method : {Schedule::lifetime, Schedule::exact}) {
    const Program out = schedule(p, method);
    EXPECT_EQ(print(out),
              "input %0 x0 : f32[16]\n"
              "forward %1, %2 = mix(%0) first=160 second=32 : f32[160], f32[32]\n"
              "forward %4 = mix(%1) first=16 second=0 : f32[16]\n"
              "forward %3 = mix(%2) first=128 second=0 : f32[128]\n"
              "forward %5 = mix(%4, %3) first=16 second=0 : f32[16]\n"
              "output %5 loss\n");
    EXPECT_EQ(peak_bytes(out), 64 * (2 + 10 + 2 + 1));
  }
}

// OLLA, Figure 4: A and B live at the same time, A dies, C comes and is larger than A. Packed one
// after the other they leave no room; with a gap left from the start, everything fits.
TEST(Olla, Figure4) {
  const std::vector<Buffer> buffers = {{0, 2, 2}, {1, 4, 1}, {3, 5, 3}};  // A, B, C
  const std::vector<int32_t> arrival{0, 1, 2};
  EXPECT_EQ(first_fit(buffers, arrival).height, 6);
  const Placement best = place(buffers);
  EXPECT_EQ(best.height, best.lower_bound);
  EXPECT_EQ(best.height, 4);
}

// OLLA, Figure 5: v3 and v4, which read e1, come before v5, which makes e2: in no order are the two
// in memory together.
TEST(Olla, Figure5) {
  Builder b;
  Val x = b.input("x0", {Shape{16}});
  Val e1 = mix(b, {x}, 5);
  Val a = mix(b, {e1}, 1), c = mix(b, {e1}, 1), aside = mix(b, {x}, 1);
  Val e2 = mix(b, {a, c}, 7);
  b.output("loss", mix(b, {e2, aside}, 1));
  const Program p = b.take();
  std::mt19937_64 random(5);
  for (int k = 0; k < 100; ++k) {
    const Program q = pal::permuted(p, random_order(dependencies_of(p), random));
    const Storages storages = assign_storages(q);
    const auto lives = lifetimes_of(q, storages);
    EXPECT_FALSE(lives[size_t(storages.of[size_t(e1.id)])].overlaps(
        lives[size_t(storages.of[size_t(e2.id)])]));
  }
}

// The vocabulary's loss in chunks of rows: their logits need never be there together, for a chunk's
// gradient needs nothing of the others.
Program chunked_loss(int chunks, int64_t rows, int64_t hidden, int64_t words) {
  Builder b;
  Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {Shape{rows, hidden}}), t = b.input("t", {Shape{rows}, DType::i32});
  Val u = b.state("u", {Shape{hidden, hidden}}, Role::weight);
  Val w = b.state("w", {Shape{hidden, words}}, Role::weight);
  Val h = matmul(x, u), loss;
  for (int k = 0; k < chunks; ++k) {
    const int64_t begin = k * rows / chunks, end = (k + 1) * rows / chunks;
    const CrossEntropy part =
        cross_entropy(matmul(slice(h, begin, end), w), slice(t, begin, end), scalars);
    loss = loss ? pal::add(loss, part.loss) : part.loss;
  }
  b.output("loss", loss);
  const std::vector<Val> weights{u, w}, gradients = differentiate(b, loss, weights);
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, weights, gradients, scalars, {});
  return b.take();
}

TEST(Schedule, AChunkedLossNeedsRoomForOneChunk) {
  const int64_t rows = 64, hidden = 16, words = 512, logits = rows * words * 4;
  for (int chunks : {2, 4, 8, 16}) {
    const Program p = chunked_loss(chunks, rows, hidden, words);
    std::string note;
    const Program out = schedule(p, Schedule::lifetime, &note);
    ASSERT_NO_THROW(verify(out));
    const int64_t without = peak_bytes(p) - logits;  // weights, gradients, and the rest
    EXPECT_LE(peak_bytes(out), without + logits / chunks + 4096) << note << "\n" << print(out);
    EXPECT_LT(peak_bytes(out), peak_bytes(p) - logits * (chunks - 1) / chunks + 4096) << note;
  }
}

TEST(Schedule, ChunksInAnotherOrderGiveTheSameBits) {
  const Program p = chunked_loss(4, 32, 16, 64);
  const Program out = schedule(p, Schedule::lifetime);
  ASSERT_NE(print(p), print(out));
  auto trained = [](const Program& program) {
    Evaluator eval(program);
    StepScalars scalars;
    scalars.learning_rate = 0.1f, scalars.tokens = 32;
    for (auto& slot : program.state) {
      eval.set(slot.start, start_values(slot.name, program.value(slot.start).spec.numel(), 0));
    }
    eval.set_bytes(eval.find("scalars"), std::as_bytes(std::span(&scalars, 1)));
    eval.set("x", start_values("x", 32 * 16, 1));
    std::vector<float> targets;
    for (int i = 0; i < 32; ++i) targets.push_back(float(1 + i * 5 % 63));
    eval.set("t", targets);
    eval.run();
    return std::vector{eval.floats("loss"), eval.floats(program.find_state("u")->end),
                       eval.floats(program.find_state("w")->end)};
  };
  EXPECT_EQ(trained(out), trained(p));
}

}  // namespace
}  // namespace pal::test
