// Packed operands under a budget: where they have no room, the step goes without.
#include "memory/passes/layouts.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/memory/compiled_bits.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

std::string note_of_layouts(const Compiled& c) {
  for (const PassReport& report : c.passes) {
    if (report.name == "layouts") return report.note;
  }
  return "";
}

TEST(Layouts, AreLeftOutWhereTheBudgetHasNoRoom) {
  KernelCache cache{Device{}};
  CompileOptions plain;
  plain.layouts = false;
  int without = 0, with = 0, packed = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Program step = random_network(seed, {.layers = 6, .batch = 16, .width = 32});
    const StateLayout layout(step);
    CompileOptions options;
    const Compiled most = compile(step, cache, layout, options);
    const Compiled least = compile(step, cache, layout, plain);
    packed += !note_of_layouts(most).starts_with("0 reorders");
    const Bits expected = bits_of(most);
    ASSERT_EQ(difference_of(step, expected, bits_of(least)), "") << seed;
    const int64_t above = most.plan.device().bytes, below = least.plan.device().bytes;
    if (above <= below) continue;  // packing takes nothing, or saves scratch memory
    for (const int64_t budget : {below, (below + above) / 2, above - 1, above}) {
      options.budget = budget;  // it is an error not to keep to it
      const Compiled c = compile(step, cache, layout, options);
      ASSERT_LE(c.plan.device().bytes, budget) << seed;
      ASSERT_EQ(difference_of(step, expected, bits_of(c)), "") << seed;
      // Nor do searches count what is left out.
      ASSERT_LE(least_bytes(step, cache, layout, options), budget) << seed;
      const std::string note = note_of_layouts(c);
      (note.empty() || note.starts_with("undone: ") ? without : with) += 1;
    }
  }
  if (packed == 0) GTEST_SKIP() << "this processor packs no operands of products";
  EXPECT_GT(without, 0);
  EXPECT_GT(with, 0);
}

}  // namespace
}  // namespace pal::test
