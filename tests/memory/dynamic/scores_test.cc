// Which storage leaves first, by each filter and heuristic.
#include "memory/dynamic/scores.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/builder.h"
#include "ops/elementwise/activations.h"
#include "ops/sums/reduce.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

const DeviceProfile kScoresCard{
    .name = "card", .f32 = 1e12, .vector = 1e11, .memory = 1e11, .tile = 1};

// y_0 -> y_1 -> y_2 -> y_3, as if they had 1, 1, 2 and 4 bytes and took 1, 10, 100 and 1000 ms.
struct Chain {
  Ready ready;
  StepFacts facts{ready.program, ready.storages, kScoresCard};

  static Program program() {
    Builder b;
    Val y = b.input("x", {{256}});
    for (int i = 0; i < 4; ++i) y = tanh(y);
    b.output("loss", sum_all(y));
    return b.take();
  }
  Chain() : ready(program(), {.inplace = false}) {
    for (int i = 0; i < 4; ++i) facts.ms[i] = i ? 10 * facts.ms[i - 1] : 1;
    facts.bytes[y(0)] = 1, facts.bytes[y(1)] = 1, facts.bytes[y(2)] = 2, facts.bytes[y(3)] = 4;
  }
  StorageId y(int i) const { return ready.storages.of[ready.program.node(i).out[0]]; }
};

const auto kAll = [](StorageId) { return true; };

TEST(Scores, Filters) {
  const auto lowest = [](Filter filter) {
    Chain chain;
    const DynamicOptions options{.manager = Manager::delta, .filter = filter};
    Scores scores(chain.facts, options);
    scores.came(chain.y(0), 0);  // 1 byte for 10 ms
    scores.came(chain.y(2), 1);  // 2 for 9
    scores.came(chain.y(3), 7);  // 4 for 3
    const StorageId s = scores.lowest(10, kAll);
    for (int i = 0; i < 4; ++i) {
      if (chain.y(i) == s) return i;
    }
    return -1;
  };
  EXPECT_EQ(lowest(Filter::base), 2);
  EXPECT_EQ(lowest(Filter::lru), 0);
  EXPECT_EQ(lowest(Filter::greedy), 3);
}

TEST(Scores, OfOneSizeTheLeastRecentlyUsedThatCanLeave) {
  Chain chain;
  const DynamicOptions options{.manager = Manager::delta};
  Scores scores(chain.facts, options);
  scores.came(chain.y(0), 0), scores.came(chain.y(1), 1);
  EXPECT_EQ(scores.lowest(10, kAll), chain.y(0));
  EXPECT_EQ(scores.lowest(10, [&](StorageId s) { return s != chain.y(0); }), chain.y(1));
  scores.used(chain.y(0), 2);
  EXPECT_EQ(scores.lowest(10, kAll), chain.y(1));
  scores.left(chain.y(1), true);
  EXPECT_EQ(scores.lowest(10, kAll), chain.y(0));
  scores.left(chain.y(0), true);
  EXPECT_EQ(scores.lowest(10, kAll), StorageId(kNone));
}

// y_2 is on the device, of 2 bytes, last used 5 ms ago; its neighbours y_0, y_1 and y_3 are evicted
// one after the other. Costs are 1, 10, 100 and 1000 ms.
TEST(Scores, HeuristicsOfDtr) {
  const auto values = [](DtrHeuristic heuristic) {
    Chain chain;
    const DynamicOptions options{.manager = Manager::dtr, .dtr = heuristic};
    Scores scores(chain.facts, options);
    for (int i = 0; i < 4; ++i) scores.came(chain.y(i), i);
    std::vector<double> out{scores.heuristic(chain.y(2), 7)};
    for (const int i : {0, 1, 3}) {
      scores.left(chain.y(i), true);
      out.push_back(scores.heuristic(chain.y(2), 7));
    }
    scores.came(chain.y(1), 6);
    out.push_back(scores.heuristic(chain.y(2), 7));
    return out;
  };
  using V = std::vector<double>;
  EXPECT_EQ(values(DtrHeuristic::full), (V{10, 10, 11.1, 111.1, 110}));
  EXPECT_EQ(values(DtrHeuristic::local), (V{10, 10, 10, 10, 10}));
  EXPECT_EQ(values(DtrHeuristic::lru), (V{0.2, 0.2, 0.2, 0.2, 0.2}));
  EXPECT_EQ(values(DtrHeuristic::size), (V{0.5, 0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(values(DtrHeuristic::msps), (V{50, 50, 55.5, 55.5, 50}));
  // Sets: {y_0, y_1} and {y_3}. y_1 comes back: its cost leaves the set, which y_2 no longer
  // touches.
  EXPECT_EQ(values(DtrHeuristic::eq), (V{10, 10, 11.1, 111.1, 110}));
}

// Sets are not taken apart: y_0 and y_2 stay in one when y_1, which joined them, comes back.
TEST(Scores, ASetKeepsItsPartsWhenAMemberComesBack) {
  Chain chain;
  const DynamicOptions options{.manager = Manager::dtr, .dtr = DtrHeuristic::eq};
  Scores scores(chain.facts, options);
  for (int i = 0; i < 4; ++i) scores.came(chain.y(i), 0);
  for (int i = 0; i < 3; ++i) scores.left(chain.y(i), true);
  EXPECT_EQ(scores.heuristic(chain.y(3), 1), (1000 + 111) / 4.0);
  scores.came(chain.y(1), 1);
  EXPECT_EQ(scores.heuristic(chain.y(3), 1), (1000 + 101) / 4.0) << "without the cost of y_1";
}

}  // namespace
}  // namespace pal::test
