// Random training steps of real operators: whatever way they are recomputed and fused, placed and
// ordered, the plan holds, the footprint is no larger, and the bits are the same.
#include <gtest/gtest.h>

#include "core/builder.h"
#include "memory/compile.h"
#include "ops/products/matmul.h"
#include "tests/memory/compiled_bits.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

TEST(RecomputeProperty, SameBitsAndNoLargerFootprint) {
  int fused = 0, epilogues = 0, encoded = 0, smaller = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    // Wide ones have products that are compute-heavy.
    const bool wide = seed % 3 == 0;
    const Program step = random_network(
        seed, {.layers = 6 + int(seed % 9), .batch = wide ? 48 : 3, .width = wide ? 80 : 6});
    KernelCache cache{Device{}};
    const StateLayout layout(step);
    for (const bool inplace : {true, false}) {
      for (const Schedule schedule : {Schedule::lifetime, Schedule::program}) {
        CompileOptions options;
        options.inplace = inplace, options.schedule = schedule;
        options.layouts = false;  // reorders come after, and cost bytes of their own
        options.fuse_epilogues = false;
        const Compiled plain = compile(step, cache, layout, options);
        const Bits expected = bits_of(plain);
        for (const Recompute method : {Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
          for (const bool fuse : {true, false}) {
            const std::string where = "seed " + std::to_string(seed) + " " + to_string(method) +
                                      (fuse ? " fused" : "") + (inplace ? " in place" : "") +
                                      (schedule == Schedule::lifetime ? " scheduled" : "");
            options.recompute = method;
            options.fuse_recompute = options.fuse_epilogues = fuse;
            const Compiled c = compile(step, cache, layout, options);
            ASSERT_EQ(difference_of(step, expected, bits_of(c)), "") << where;
            for (const PassReport& pass : c.passes) {
              if (pass.name != to_string(method) && !pass.name.starts_with("fuse_")) continue;
              if (schedule == Schedule::program) {
                ASSERT_LE(pass.after_bytes, pass.before_bytes) << where;
              }
            }
            ASSERT_LE(c.plan.device().lower_bound, plain.plan.device().lower_bound) << where;
            fused += count_of(c.program, "lstm_cell_replay_grad") +
                     count_of(c.program, "mlp_score_replay_grad");
            epilogues += count_of(c.program, "matmul_relu");
            encoded += count_of(c.program, "to_bits");
            smaller += c.plan.device().lower_bound < plain.plan.device().lower_bound;
          }
        }
      }
    }
  }
  EXPECT_GT(fused, 50);
  EXPECT_GT(epilogues, 0);
  EXPECT_GT(encoded, 0);
  EXPECT_GT(smaller, 100);
}

// Epilogues alone, with every pass that comes after.
TEST(RecomputeProperty, EpilogueSameBitsAndNoLargerFootprint) {
  KernelCache cache{Device{}};
  int relus = 0, gradients = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const bool wide = seed % 3 == 0;
    const Program step = random_network(
        seed, {.layers = 4 + int(seed % 11), .batch = wide ? 48 : 3, .width = wide ? 80 : 6});
    const StateLayout layout(step);
    CompileOptions options;
    options.inplace = seed % 5 != 0;
    options.schedule = seed % 2 ? Schedule::lifetime : Schedule::program;
    options.place_effort = {};  // to the last byte
    options.fuse_epilogues = false;
    const Compiled plain = compile(step, cache, layout, options);
    options.fuse_epilogues = true;
    const Compiled c = compile(step, cache, layout, options);
    const int found = count_of(c.program, "matmul_relu") + count_of(c.program, "matmul_relu_grad");
    ASSERT_LE(c.plan.device().bytes, plain.plan.device().bytes) << "seed " << seed;
    if (!found) continue;
    ASSERT_EQ(difference_of(step, bits_of(plain), bits_of(c)), "") << "seed " << seed;
    relus += count_of(c.program, "matmul_relu");
    gradients += count_of(c.program, "matmul_relu_grad");
  }
  EXPECT_GT(relus, 20);
  EXPECT_GT(gradients, 10);
}

// With every pass on: the passes that come after a choice may make less of it than of the step
// without, as reorders do.
TEST(RecomputeProperty, NoLargerFootprintAfterAllPasses) {
  KernelCache cache{Device{}};
  int undone = 0, smaller = 0, reordered = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const bool wide = seed % 3 == 0;
    const Program step = random_network(
        seed, {.layers = 4 + int(seed % 11), .batch = wide ? 48 : 3, .width = wide ? 80 : 6});
    const StateLayout layout(step);
    CompileOptions options;
    options.inplace = seed % 5 != 0;
    options.schedule = seed % 2 ? Schedule::lifetime : Schedule::program;
    options.place_effort = {};  // to the last byte
    const Compiled plain = compile(step, cache, layout, options);
    reordered += count_of(plain.program, "reorder") > 0;
    options.recompute = seed % 8 == 6   ? Recompute::mirror
                        : seed % 8 == 7 ? Recompute::sqrt
                                        : Recompute::echo;
    options.recompute_options.heavy = 12;  // such small products are heavy, as real ones are
    options.fuse_recompute = seed / 2 % 2;
    const Compiled c = compile(step, cache, layout, options);
    ASSERT_LE(c.plan.device().bytes, plain.plan.device().bytes)
        << "seed " << seed << " " << to_string(options.recompute);
    ASSERT_EQ(c.plan.device().lower_bound, least_bytes(step, cache, layout, options));
    smaller += c.plan.device().bytes < plain.plan.device().bytes;
    undone += c.passes[c.passes.front().name != to_string(options.recompute)].note.starts_with(
        "undone: after the passes");
  }
  EXPECT_GT(smaller, 500);
  // Some processors' kernels read plain operands.
  Builder b;
  b.output("y", matmul(b.input("x", {{48, 80}}), b.input("w", {{80, 80}})));
  const Program product = b.take();
  const bool packs = !cache.get(product, product.node(0))->prepared.preferred.empty();
  if (packs) {
    EXPECT_GT(reordered, 500);
  } else {
    EXPECT_EQ(reordered, 0);
  }
  EXPECT_GT(undone, 0);
}

// What echo leaves, for parts of the step's time between none and all of it.
std::vector<int64_t> bytes_for_time(const Program& step, KernelCache& cache,
                                    const StateLayout& layout, CompileOptions options) {
  std::vector<int64_t> bytes;
  for (const double overhead :
       {0.0, 0.01, 0.02, 0.04, 0.05, 0.09, 0.12, 0.2, 0.3, 0.45, 1.0, 3.0}) {
    options.recompute_options.overhead = overhead;
    bytes.push_back(least_bytes(step, cache, layout, options));
  }
  return bytes;
}

TEST(RecomputeProperty, MoreTimeNeverCostsBytesAndABudgetThatCanBeMetIsMet) {
  KernelCache cache{Device{}};
  int smaller = 0, met = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const bool wide = seed % 3 == 0;
    const Program step = random_network(
        seed, {.layers = 4 + int(seed % 23), .batch = wide ? 48 : 3, .width = wide ? 80 : 6});
    const StateLayout layout(step);
    CompileOptions options;
    options.recompute = Recompute::echo;
    options.schedule = seed % 2 ? Schedule::lifetime : Schedule::program;
    options.fuse_recompute = seed / 2 % 2;
    // Such small products are heavy, and some twice as heavy, as real ones are.
    options.recompute_options.heavy = 12, options.recompute_options.heavier = 24;
    const std::vector<int64_t> bytes = bytes_for_time(step, cache, layout, options);
    for (size_t i = 1; i < bytes.size(); ++i) {
      ASSERT_LE(bytes[i], bytes[i - 1]) << "seed " << seed << " time " << i;
      smaller += bytes[i] < bytes[i - 1];
    }
    options.recompute_options.overhead = 0.01;
    for (const int64_t budget : {bytes.back(), (bytes.front() + bytes.back()) / 2}) {
      options.budget = budget;
      ASSERT_LE(least_bytes(step, cache, layout, options), budget) << "seed " << seed;
      met += bytes[1] > budget;
    }
  }
  EXPECT_GT(smaller, 15);
  EXPECT_GT(met, 20);
}

}  // namespace
}  // namespace pal::test
