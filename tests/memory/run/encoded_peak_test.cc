// A step with every kind of encoding takes the bytes that were planned, and fewer than without.
#include <gtest/gtest.h>

#include <set>

#include "autograd/differentiate.h"
#include "core/builder.h"
#include "memory/passes/map_forms.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/sums/reduce.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

// Two convolutions with relu, one with pooling between, twice.
Program network() {
  Builder b;
  const Init init{Init::Kind::normal, 0.3f};
  Val x = b.input("images", {{4, 16, 16, 3}});
  std::vector<Val> weights;
  auto conv = [&](Val from, int64_t in, int64_t out) {
    weights.push_back(
        b.state("w" + std::to_string(weights.size()), {{out, 3, 3, in}}, Role::weight, init));
    return relu(conv2d(from, weights.back(), conv2d_attrs(1, 1)));
  };
  x = conv(conv(x, 3, 8), 8, 8);
  x = max_pool(x, max_pool_attrs(2, 2)).y;
  x = conv(conv(x, 8, 16), 16, 16);
  x = max_pool(x, max_pool_attrs(2, 2)).y;
  Val loss = sum_all(conv(x, 16, 16));
  b.output("loss", loss);
  const auto d = differentiate(b, loss, weights);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  return b.take();
}

// Peak of the plan and highest byte that a run of it touched.
std::pair<int64_t, int64_t> planned_and_recorded(const Encodings& encodings,
                                                 std::set<std::string>* kinds) {
  CompileOptions options;
  options.encode = encodings;
  KernelCache cache{Device{}};
  const Program p = network();
  const Compiled compiled = compile(p, cache, StateLayout(p), options);
  for (const MapForm& map : map_forms(compiled.program, {})) {
    kinds->insert(kind_of(map.form));
  }
  const Ready r(compiled.program);
  const Plan plan = make_plan(r.program, r.storages, r.layout);
  EXPECT_EQ(plan.device().bytes, compiled.plan.device().bytes);
  Arena arena(plan);
  StaticPlan memory(r.storages, plan, arena);
  memory.fill_canary();
  run_with(r, memory, 1);
  return {plan.device().bytes, memory.recorded_peak()};
}

TEST(EncodedPeak, PlannedIsRecorded) {
  std::set<std::string> none, rounded, sparse;
  const auto plain = planned_and_recorded({}, &none);
  const auto lossy = planned_and_recorded({.binarize = true, .dpr = Dpr::fp8}, &rounded);
  const auto half = planned_and_recorded(
      {.binarize = true, .ssdc = true, .ssdc_margin = 1, .assumed_density = 0.3}, &sparse);
  for (const auto& [planned, recorded] : {plain, lossy, half}) EXPECT_EQ(planned, recorded);
  EXPECT_LT(lossy.first, plain.first);
  EXPECT_LT(half.first, plain.first);
  EXPECT_TRUE(rounded.count("bits, fp8") || rounded.count("fp8"));
  EXPECT_TRUE(sparse.count("bits, mask") || sparse.count("mask") || sparse.count("csr") ||
              sparse.count("bits, csr"));
}

}  // namespace
}  // namespace pal::test
