// Recomputation of given values: what runs again, and that results are the same bits.
#include "memory/recompute/chosen.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/error.h"
#include "memory/compile.h"
#include "memory/passes/parts.h"
#include "memory/recompute/region_cut.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/recompute/recompute_toys.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

TEST(Ticks, StayInRange) {
  EXPECT_EQ(ticks_of(1e300), kMostTicks);
  EXPECT_EQ(ticks_of(-1), 0);
  EXPECT_EQ(ticks_of(1.048576e-9), 1);
}

Program with_origins(Program program) {
  for (ValueId v : program.values.ids()) program.value(v).origin = v;
  return program;
}

// Values that were chosen are made again, with what is chosen of what they need.
TEST(Chosen, WhatIsChosenIsMadeAgain) {
  Builder b;
  Val x = b.input("x", {Shape{1 << 10}});
  const ValueId first = b.program().values.next_id();
  Val y = affine(x);
  const ValueId second = b.program().values.next_id();
  Val z = affine(y);
  {
    Builder::Within backward(b, Phase::backward);
    b.output("d", sum(reverse(z)));
  }
  const Program step = with_origins(b.take());
  const auto clones = [&](std::vector<ValueId> chosen) {
    const RecomputeOptions options{.chosen = std::move(chosen)};
    const Program out = recompute(step, Recompute::chosen, footprint, nullptr, options);
    return count_of(out, "affine") - 2;
  };
  EXPECT_EQ(clones({}), 0);
  EXPECT_EQ(clones({first}), 0);  // nobody needs it
  EXPECT_EQ(clones({second}), 1);
  EXPECT_EQ(clones({first, second}), 2);
  EXPECT_THROW(clones({step.values.next_id()}), ProgramError);
  EXPECT_THROW(clones({kNone}), ProgramError);
}

// Whatever is chosen, also beside the passes that follow: the same losses, gradients and weights.
TEST(Chosen, SameBitsOnRandomNetworks) {
  KernelCache cache{Device{}};
  int changed = 0;
  const uint64_t networks = networks_asked(60);
  for (uint64_t seed = 0; seed < networks; ++seed) {
    const Program step = random_network(seed, {.layers = 6 + int(seed % 9)});
    const StateLayout layout(step);
    const Bits expected = bits_of(compile(step, cache, layout, {}));
    std::mt19937_64 random(seed);
    for (const uint64_t one_of : {1, 2, 5}) {
      CompileOptions options{.recompute = Recompute::chosen};
      for (ValueId v : split_parts(step).values.ids()) {
        if (random() % one_of == 0) options.recompute_options.chosen.push_back(v);
      }
      const Compiled c = compile(step, cache, layout, options);
      ASSERT_EQ(difference_of(step, expected, bits_of(c)), "") << "seed " << seed;
      for (const Node& node : c.program.nodes) {
        if (node.phase != Phase::recompute) continue;
        ++changed;
        break;
      }
    }
  }
  EXPECT_GT(changed, int(networks));
}

}  // namespace
}  // namespace pal::test
