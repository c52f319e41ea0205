// What echo remembers of a step leaves its answers as they are.
#include <gtest/gtest.h>

#include "core/print.h"
#include "memory/recompute/echo_trials.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

TEST(EchoMemory, AnswersAsWithoutItAndAsksLess) {
  EchoMemory memory;
  int asked = 0, asked_alone = 0, recomputed = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const Program p =
        random_network(seed, {.layers = 8 + int(seed % 12), .batch = 16, .width = 32});
    // More and more time, the same again, and less.
    for (const double part : {0.02, 0.05, 0.09, 0.09, 0.3, 1.0, 0.3, 0.15, 0.07, 0.02}) {
      const RecomputeOptions options{.heavy = 1e9, .exchange = 1e9, .overhead = part};
      const auto counted = [](int& count) {
        return [&count](const Program& q) { return ++count, peak_bytes(q); };
      };
      const Program with =
          recompute(p, Recompute::echo, counted(asked), nullptr, options, {.memory = &memory});
      const Program alone = recompute(p, Recompute::echo, counted(asked_alone), nullptr, options);
      ASSERT_EQ(print(with), print(alone)) << "seed " << seed << ", " << part;
      recomputed += with.nodes.size() > p.nodes.size();
    }
  }
  EXPECT_LT(asked, asked_alone);
  EXPECT_GT(recomputed, 10);
}

}  // namespace
}  // namespace pal::test
