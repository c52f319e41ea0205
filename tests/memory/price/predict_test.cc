// Predictions against rooflines worked out by hand.
#include "memory/price/predict.h"

#include <gtest/gtest.h>

#include <numeric>

#include "autograd/differentiate.h"
#include "core/order.h"
#include "memory/compile.h"
#include "memory/price/works.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/transfers.h"
#include "ops/tensors/views.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

// 1 Tflop/s of products at a half, 100 Gflop/s of anything else, 10 GB/s at a half, 1 us a node.
DeviceProfile device() {
  return {.name = "toy",
          .f32 = 1e12,
          .vector = 1e11,
          .memory = 1e10,
          .capacity = 1 << 30,
          .launch = 1e-6,
          .units = 10,
          .tile = 4096,
          .matmul_efficiency = 0.5,
          .memory_efficiency = 0.5};
}

Program product(int64_t m, int64_t n, int64_t k, DType type = DType::f32) {
  Builder b;
  Val x = b.input("x0", {Shape{m, k}, type}), y = b.input("x1", {Shape{k, n}, type});
  b.output("y", matmul(x, y));
  return b.take();
}

double ms_of(const Program& p, const DeviceProfile& d) { return predict(p, d).node_ms.at(0); }

TEST(Predict, AnElementwiseNodeIsBoundByItsBytes) {
  Builder b;
  Val x = b.input("x0", {Shape{1000}});
  b.output("y", pal::add(x, x));
  const Program p = b.take();
  const Prediction out = predict(p, device());
  // 2 operands and a result of 4,000 bytes at 5 GB/s: 2.4 us. Its 1,000 flops take 0.01 us.
  EXPECT_NEAR(out.node_ms.at(0), 2.4e-3 + 1e-3, 1e-12);
  EXPECT_NEAR(out.step_ms, 3.4e-3, 1e-12);
  EXPECT_EQ(out.flops, 1000);
  EXPECT_EQ(out.bytes, 12000);
  EXPECT_NEAR(out.of(Phase::forward), 3.4e-3, 1e-12);
}

TEST(Predict, ManyFlopsWithFewBytesCountByTheVectorRate) {
  // 8 flops a byte: no product of matrices. 8e6 flops at 100 Gflop/s: 80 us.
  EXPECT_NEAR(time_ms({.flops = 8e6, .bytes = 1e6, .results = 1e5},
                      [] {
                        auto d = device();
                        d.memory = 1e12;
                        return d;
                      }()),
              0.080 + 0.001, 1e-12);
}

TEST(Predict, AProductIsBoundByItsFlopsAndTheUnitsItFills) {
  // 128 x 2048 results in tiles of 4096: 64 pieces, 7 turns of 10 units: 64/70 of the rate.
  // 2 * 128 * 2048 * 512 = 268,435,456 flops; 6.6 MB would take 1.1 ms of memory.
  DeviceProfile d = device();
  d.memory = 1e12;
  EXPECT_NEAR(ms_of(product(128, 2048, 512), d), 268435456e3 / (0.5e12 * 64 / 70) + 1e-3, 1e-9);
  // With as many units as pieces nothing is idle; with more, some are.
  d.units = 64;
  EXPECT_NEAR(ms_of(product(128, 2048, 512), d), 268435456e3 / 0.5e12 + 1e-3, 1e-9);
  d.units = 80;
  EXPECT_NEAR(ms_of(product(128, 2048, 512), d), 268435456e3 / (0.5e12 * 0.8) + 1e-3, 1e-9);
}

TEST(Predict, LongSumsAreCutToo) {
  DeviceProfile d = device();
  d.memory = 1e12;
  const Program p = product(64, 64, 2560);  // one tile, five pieces of 512: half of ten units
  EXPECT_NEAR(occupancy(work_of(p, 0), d), 0.5, 1e-12);
  EXPECT_NEAR(ms_of(p, d), 2.0 * 64 * 64 * 2560 * 1e3 / (0.5e12 * 0.5) + 1e-3, 1e-9);
  EXPECT_NEAR(occupancy(work_of(product(64, 64, 511), 0), d), 0.1, 1e-12);
}

TEST(Predict, AProductOfOneRowIsBoundByItsBytes) {
  // (512 + 512 * 2048 + 2048) * 4 = 4,204,544 bytes at 5 GB/s.
  EXPECT_NEAR(ms_of(product(1, 2048, 512), device()), 4204544e3 / 5e9 + 1e-3, 1e-9);
}

TEST(Predict, TheOperandsTypeChoosesTheRate) {
  DeviceProfile d = device();
  d.memory = 1e13, d.units = 64, d.bf16 = 8e12, d.f16 = 4e12;
  const double f32 = ms_of(product(128, 2048, 512), d) - 1e-3;
  EXPECT_NEAR(ms_of(product(128, 2048, 512, DType::bf16), d) - 1e-3, f32 / 8, 1e-9);
  EXPECT_NEAR(ms_of(product(128, 2048, 512, DType::f16), d) - 1e-3, f32 / 4, 1e-9);
  d.bf16 = 0;  // a card without: as f32
  EXPECT_NEAR(ms_of(product(128, 2048, 512, DType::bf16), d) - 1e-3, f32, 1e-9);
  d.tf32 = 2e12;
  EXPECT_NEAR(ms_of(product(128, 2048, 512), d) - 1e-3, f32 / 2, 1e-9);
}

// Queries, keys and values in one operand.
TEST(Predict, TheOnlyOperandsTypeChoosesTheRate) {
  for (const DType type : {DType::f32, DType::bf16}) {
    Builder b;
    Val qkv = b.input("x0", {Shape{512, 1, 3 * 64}, type});
    b.output("y", attention(qkv, {}, {}, 1));
    EXPECT_EQ(work_of(b.program(), 0).type, type);
    EXPECT_TRUE(is_product(work_of(b.program(), 0)));
  }
}

TEST(Predict, SmallNodesRunFromTheCache) {
  DeviceProfile d = device();
  d.cache = 1e11, d.cache_bytes = 12000;
  for (int64_t n : {1000, 1001}) {
    Builder b;
    Val x = b.input("x0", {Shape{n}});
    b.output("y", pal::add(x, x));
    const double bandwidth = n == 1000 ? 1e11 : 5e9;
    EXPECT_NEAR(ms_of(b.take(), d), 12e3 * double(n) / bandwidth + 1e-3, 1e-9);
  }
}

TEST(Predict, ViewsInPlaceCostNothingAndCopiesWhatTheyMove) {
  Builder b;
  Val x = b.input("x0", {Shape{1000}});
  Val y = affine(x);
  Val twice = join({y, y});  // y lies in one half; the other is copied
  b.output("y", affine(view(twice)));
  // The toys say that a view moves its bytes; the real ones have no flops, as these.
  Program p = b.take();
  auto free_cost = [](SpecSpan, SpecSpan, const Attrs&) { return Cost{0, 64}; };
  OpDef free_view = toy_view, free_join = toy_join;
  free_view.cost = free_join.cost = free_cost;
  for (Node& node : p.nodes) {
    if (node.op == &toy_view) node.op = &free_view;
    if (node.op == &toy_join) node.op = &free_join;
  }
  const Prediction in_place = predict(p, device());
  EXPECT_EQ(in_place.node_ms.at(1), 0);
  EXPECT_EQ(in_place.node_ms.at(2), 0);
  const Storages storages = assign_storages(p);
  const Prediction placed = predict(p, device(), &storages);
  EXPECT_NEAR(placed.node_ms.at(1), 8e3 / 5e9 * 1e3 + 1e-3,
              1e-12);  // 4,000 bytes read, and written
  EXPECT_EQ(placed.node_ms.at(2), 0);
  const Storages apart = assign_storages(p, {}, {.windows = false});
  const Prediction copied = predict(p, device(), &apart);
  EXPECT_NEAR(copied.node_ms.at(1), 16e3 / 5e9 * 1e3 + 1e-3, 1e-12);
  EXPECT_NEAR(copied.node_ms.at(2), 16e3 / 5e9 * 1e3 + 1e-3, 1e-12);
}

// One byte is a copy like any other; none is none.
TEST(Works, ACopyOfOneByteRuns) {
  Builder b;
  const Val x = b.input("x", {.shape = {8}, .dtype = DType::u8});
  b.output("y", slice(x, 0, 1));
  const Program p = b.take();
  const Storages apart = assign_storages(p, {}, {.windows = false});
  const Work copied = work_of(p, 0, &apart), in_place = work_of(p, 0, nullptr);
  EXPECT_TRUE(copied.runs);
  EXPECT_EQ(copied.bytes, 2) << "read, and written";
  EXPECT_FALSE(in_place.runs);
  EXPECT_EQ(in_place.bytes, 0);
}

TEST(Predict, QueuesOverlapAndWait) {
  Builder b;
  Val x = b.input("x0", {Shape{1000}});
  Val a = affine(x);                          // node 0: 8,000 bytes, 1.6 + 1 us
  Val host = copy_out(a);                     // node 1: 4,000 bytes over the link: 4 + 1 us
  Val c = affine(affine(affine(affine(x))));  // nodes 2 to 5: 10.4 us
  Val back = copy_in(host);                   // node 6: 5 us, at once after the first copy
  b.output("y", pal::add(c, back));           // node 7: 2.4 + 1 us
  Program p = b.take();
  ASSERT_EQ(p.node_count(), 8);
  for (NodeId n : {1, 6}) p.node(n).queue = 1;
  p.node(1).waits = {0};
  p.node(7).waits = {6};
  DeviceProfile d = device();
  d.link = 2e9, d.link_efficiency = 0.5;
  const Prediction out = predict(p, d);
  EXPECT_EQ(out.host_bytes, 8000);
  EXPECT_NEAR(out.node_ms.at(1), 5e-3, 1e-9);
  // Compute: 2.6 + 10.4 = 13; the copies are done at 2.6 + 10 = 12.6, before they are needed.
  EXPECT_NEAR(out.step_ms, 13e-3 + 3.4e-3, 1e-9);
  d.link = 1e9;  // the copies take 9 us each, and are done at 20.6
  EXPECT_NEAR(predict(p, d).step_ms, 20.6e-3 + 3.4e-3, 1e-9);
}

// A copy out and a copy back at once: with half the link for each, both take twice as long while
// they overlap.
TEST(Predict, DirectionsShareTheLink) {
  Builder b;
  Val x = b.input("x0", {Shape{1000}});
  Val a = affine(x);                          // node 0: 2.6 us
  Val first = copy_out(a);                    // node 1: 4 + 1 us, from 2.6
  Val c = affine(affine(affine(affine(x))));  // nodes 2 to 5: 10.4 us, until 13
  Val second = copy_out(c);                   // node 6: 5 us, from 13
  Val back = copy_in(first);                  // node 7: 5 us, from 13
  Val again = copy_in(second);                // node 8
  b.output("y", pal::add(again, back));       // node 9: 3.4 us
  Program p = b.take();
  ASSERT_EQ(p.node_count(), 10);
  for (NodeId n : {1, 6}) p.node(n).queue = 1, p.node(n).phase = Phase::offload;
  for (NodeId n : {7, 8}) p.node(n).queue = 2, p.node(n).phase = Phase::reload;
  p.node(1).waits = {0}, p.node(6).waits = {5}, p.node(7).waits = {5, 1};
  p.node(8).waits = {6}, p.node(9).waits = {8};
  DeviceProfile d = device();
  d.link = 2e9, d.link_efficiency = 0.5;
  EXPECT_NEAR(predict(p, d).step_ms, (13 + 5 + 5 + 3.4) * 1e-3, 1e-9);
  d.link_both = 4e9;
  EXPECT_NEAR(predict(p, d).step_ms, (13 + 5 + 5 + 3.4) * 1e-3, 1e-9);
  d.link_both = 2e9;
  const Prediction shared = predict(p, d);
  EXPECT_NEAR(shared.step_ms, (13 + 10 + 5 + 3.4) * 1e-3, 1e-9);
  EXPECT_NEAR(shared.end_ms.at(7), 23e-3, 1e-9);
  EXPECT_NEAR(shared.node_ms.at(7), 5e-3, 1e-9) << "by itself";
}

TEST(Predict, APartOfADeviceGoesThroughThatOfOneThread) {
  DeviceProfile d = device();
  d.f32 = 8e12, d.bf16 = 16e12, d.vector = 4e12, d.memory = 100e9, d.cache = 400e9, d.units = 4;
  const DeviceProfile half = part_of(d, 0.5);  // of nothing known, what the units say
  EXPECT_DOUBLE_EQ(half.f32, 4e12);
  EXPECT_DOUBLE_EQ(half.bf16, 8e12);
  EXPECT_DOUBLE_EQ(half.memory, 50e9);
  EXPECT_EQ(half.units, 2);
  d.thread_f32 = 4e12, d.thread_memory = 100e9, d.thread_vector = 5e12;
  const DeviceProfile one = part_of(d, 0.25);
  EXPECT_DOUBLE_EQ(one.f32, 4e12);
  EXPECT_DOUBLE_EQ(one.bf16, 8e12);
  EXPECT_DOUBLE_EQ(one.memory, 100e9);
  EXPECT_DOUBLE_EQ(one.vector, 4e12) << "a thread is not faster than all";
  EXPECT_DOUBLE_EQ(one.cache, 100e9);
  EXPECT_NEAR(part_of(d, 0.5).f32, 8e12 / std::sqrt(2), 1);
  EXPECT_DOUBLE_EQ(part_of(d, 1).f32, 8e12);
  EXPECT_EQ(part_of(d, 0.01).units, 1);
}

// A node too small to be shared out takes what one thread takes; a shared one costs the fork.
TEST(Predict, SmallNodesHaveFewThreads) {
  DeviceProfile d = device();
  d.memory = 100e9, d.cache = 0, d.units = 4, d.launch = 0, d.piece = 1000, d.memory_efficiency = 1;
  const Work small{.flops = 1, .bytes = 1e6, .results = 10, .elements = 1000};
  const Work two{.flops = 1, .bytes = 1e6, .results = 10, .elements = 1500};
  const Work large{.flops = 1, .bytes = 1e6, .results = 10, .elements = 4000};
  EXPECT_NEAR(time_ms(small, d), 1e-2, 1e-12) << "of a device of which no more is known";
  d.thread_memory = 50e9, d.fork = 1e-6;
  EXPECT_NEAR(time_ms(small, d), 2e-2, 1e-12);
  EXPECT_NEAR(time_ms(two, d), 1e-2 * std::sqrt(2) + 1e-3, 1e-12);
  EXPECT_NEAR(time_ms(large, d), 1e-2 + 1e-3, 1e-12);
  EXPECT_NEAR(time_ms(large, part_of(d, 0.25)), 2e-2, 1e-12) << "one thread forks nothing";
}

TEST(Predict, PhasesAddUpToTheNodes) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Program p = random_program(seed, {.nodes = 60, .two_queues = seed % 2 == 1});
    const Prediction out = predict(p, device());
    const double nodes = std::accumulate(out.node_ms.begin(), out.node_ms.end(), 0.0);
    EXPECT_NEAR(std::accumulate(out.by_phase.begin(), out.by_phase.end(), 0.0), nodes, 1e-9);
    EXPECT_LE(out.step_ms, nodes + 1e-9) << seed;
    if (queue_count(p) == 1) {
      EXPECT_NEAR(out.step_ms, nodes, 1e-9) << seed;
    }
  }
}

// A chain whose backward pass reads every feature map: cheap to recompute.
Program chain(int length) {
  Builder b;
  std::vector<Val> maps{b.input("x0", {Shape{4096}})};
  for (int i = 0; i < length; ++i) maps.push_back(affine(maps.back()));
  b.output("loss", sum(maps.back()));
  Builder::Within backward(b, Phase::backward);
  Val g = affine(maps.back());
  for (int i = length; i-- > 0;) g = test::plus(g, maps[size_t(i)]);
  b.output("y", g);
  return b.take();
}

TEST(Predict, CompileSaysWhatRecomputationAdds) {
  const Program p = chain(12);
  KernelCache cache{Device{}};
  const StateLayout layout(p);
  const CompileOptions none{.profile = device()};
  const Compiled plain = compile(p, cache, layout, none);
  ASSERT_TRUE(plain.time);
  EXPECT_EQ(plain.time->profile, "toy");
  EXPECT_EQ(plain.time->overhead, 0);
  EXPECT_NEAR(plain.time->step_ms, predict(p, device()).step_ms, 1e-9);
  CompileOptions sqrt = none;
  sqrt.recompute = Recompute::sqrt;
  const Compiled less = compile(p, cache, layout, sqrt);
  ASSERT_LT(less.plan.device().bytes, plain.plan.device().bytes) << "nothing was recomputed";
  const double added = less.time->step_ms - plain.time->step_ms;
  EXPECT_GT(added, 0);
  EXPECT_NEAR(less.passes.at(0).added_ms, added, 1e-9);
  EXPECT_TRUE(less.passes.at(0).trades);
  EXPECT_NEAR(less.time->overhead, added / plain.time->step_ms, 1e-9);
  EXPECT_NEAR(predict(less.program, device()).of(Phase::recompute), added, 1e-9);
  EXPECT_FALSE(compile(p, cache, layout).time) << "without a profile there is none";
}

TEST(LeastBytes, IsTheBoundThatThePlanReports) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Program p = random_program(seed, {.nodes = 50, .states = 4, .gated = seed % 3 == 0});
    KernelCache cache{Device{}};
    StateLayout layout(p);
    if (seed % 2) layout.add(random_program(seed, {.states = 6}));  // state of another program
    for (Recompute method : {Recompute::none, Recompute::echo, Recompute::sqrt}) {
      CompileOptions options;
      options.recompute = method;
      options.inplace = seed % 5 != 0;
      const Compiled c = compile(p, cache, layout, options);
      EXPECT_EQ(least_bytes(p, cache, layout, options), c.plan.device().lower_bound) << seed;
    }
  }
}

TEST(Budget, NamesTheOptionsThatFitAndNoOthers) {
  const Program p = chain(12);
  KernelCache cache{Device{}};
  const StateLayout layout(p);
  const int64_t none = compile(p, cache, layout).plan.device().bytes;
  CompileOptions sqrt;
  sqrt.recompute = Recompute::sqrt;
  const int64_t less = compile(p, cache, layout, sqrt).plan.device().bytes;
  ASSERT_LT(less, none);
  auto message = [&](CompileOptions options) {
    return message_of<BudgetError>([&] { compile(p, cache, layout, options); });
  };
  const std::string enough = message({.budget = less});
  EXPECT_NE(enough.find("what would help: "), std::string::npos) << enough;
  EXPECT_NE(enough.find("memory.recompute: sqrt ("), std::string::npos) << enough;
  EXPECT_NE(enough.find(": fits)"), std::string::npos) << enough;
  EXPECT_NE(enough.find("memory.swap: planned ("), std::string::npos) << enough;
  EXPECT_NE(enough.find("memory.manager: delta ("), std::string::npos) << enough;
  EXPECT_EQ(enough.find("memory.inplace"), std::string::npos) << enough;
  // Nothing is enough: then how far the best comes, and nothing is said to help.
  const std::string tight = message({.budget = 64 + 2 * 4096 * 4});
  EXPECT_EQ(tight.find("fits"), std::string::npos) << tight;
  EXPECT_NE(tight.find("over"), std::string::npos) << tight;
  CompileOptions off{.inplace = false};
  off.budget = compile(p, cache, layout, off).plan.device().bytes - 64;
  EXPECT_NE(message(off).find("memory.inplace: true ("), std::string::npos) << message(off);
}

// Bits are a way to keep to a budget like any other, and sparse maps none: a run needs the plan
// without them too.
TEST(Budget, NamesEncodingsThatFit) {
  Builder b;
  Val x = b.input("x", {{256, 64}});
  std::vector<Val> weights;
  for (int i = 0; i < 4; ++i) {
    weights.push_back(b.state("w" + std::to_string(i), {{64, 64}}, Role::weight));
    x = scale(relu(matmul(x, weights.back())), 2);
  }
  Val loss = sum_all(x);
  b.output("loss", loss);
  for (Val d : differentiate(b, loss, weights)) b.output("d" + std::to_string(d.id), d);
  const Program p = b.take();
  KernelCache cache{Device{}};
  const StateLayout layout(p);
  CompileOptions bits;
  bits.encode = kBits;
  const int64_t less = compile(p, cache, layout, bits).plan.device().bytes;
  ASSERT_LT(less, compile(p, cache, layout).plan.device().bytes);
  auto message = [&](CompileOptions options) {
    options.budget = less;
    return message_of<BudgetError>([&] { compile(p, cache, layout, options); });
  };
  const std::string help = message({});
  EXPECT_NE(help.find("memory.encode: [binarize, dropout_bits] ("), std::string::npos) << help;
  EXPECT_EQ(help.find("ssdc"), std::string::npos) << help;
  const std::string more = message({.encode = {.dropout_bits = true, .dpr = Dpr::fp16}});
  EXPECT_EQ(more.find("memory.encode: ["), std::string::npos) << more;
}

}  // namespace
}  // namespace pal::test
