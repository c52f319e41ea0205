// The sketch against the steps that it stands for, and fates found over it.
#include "memory/front/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/builder.h"
#include "core/scalars.h"
#include "memory/front/choose.h"
#include "memory/front/descent.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/passes/parts.h"
#include "memory/schedule/early_updates.h"
#include "memory/schedule/schedule.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "tests/memory/toy_card.h"
#include "tests/support/random_network.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

RecomputeOptions any_node() { return {.heavy = std::numeric_limits<double>::infinity()}; }

struct Sketched {
  explicit Sketched(const Program& program, double link = 0, const SketchPasses& passes = {})
      : card(toy_card(link)),
        step(split_parts(program)),
        view(step, any_node()),
        sketch(view, early_updates_order(step), card, passes) {
    sketch.let_leave(1);
  }
  // The step that such fates lead to.
  Program made(const Fates& fates) {
    Clones clones = insert_clones(view, sketch.choice_of(fates), kClonesFar);
    stash_bits(clones);
    return schedule_early_updates(fused_by({}, std::move(clones.program)));
  }

  DeviceProfile card;
  Program step;
  StepView view;
  Sketch sketch;
};

// Some of what gradients read is made again, some of what clones read is kept.
Fates random_fates(const Sketch& sketch, uint64_t seed) {
  Fates fates = sketch.nothing();
  for (const StorageId s : sketch.open()) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    if (seed >> 62 == 0) fates[s] = fates[s] == Fate::keep ? Fate::again : Fate::keep;
  }
  return fates;
}

// What is counted is what is alive once the clones are there, and what they cost: about, and nearly
// always within a few per cent. Not counted are gradients that fuse with some of their clones.
TEST(Sketch, CountsWhatTheStepHolds) {
  const uint64_t networks = networks_asked(60);
  int same = 0, as_fast = 0, cases = 0;
  for (uint64_t seed = 0; seed < networks; ++seed) {
    Sketched s(random_network(seed, {.layers = 6 + int(seed % 9), .batch = 16, .width = 32}));
    const double plain_ms = predict(fused_by({}, s.step), s.card).step_ms;
    for (uint64_t k = 0; k < 4; ++k) {
      const Fates fates = k ? random_fates(s.sketch, 4 * seed + k) : s.sketch.nothing();
      const Sketch::Count count = s.sketch.count(fates, kNoLimit);
      const Program made = s.made(fates);
      const int64_t bytes = peak_bytes(made);
      EXPECT_NEAR(double(count.bytes), double(bytes), 0.25 * double(bytes)) << seed << " " << k;
      const double ms = predict(made, s.card).step_ms;
      EXPECT_NEAR(plain_ms + count.ms, ms, 0.3 * plain_ms) << seed << " " << k;
      same += std::abs(count.bytes - bytes) <= bytes / 50;
      as_fast += std::abs(plain_ms + count.ms - ms) <= 0.05 * plain_ms;
      ++cases;
    }
  }
  EXPECT_GT(same, cases * 7 / 10);
  EXPECT_GT(as_fast, cases * 8 / 10);
}

// With passes that leave maps, clones and places as they are, counts are exact.
TEST(Sketch, CountsOnNoPassThatIsOff) {
  int larger = 0;
  for (uint64_t seed = 0; seed < networks_asked(60); ++seed) {
    const Program step = random_network(seed, {.layers = 6 + int(seed % 9), .batch = 16});
    Sketched all(step), bare(step, 0, {.bits = false, .fuse = kNoFusions, .inplace = false});
    const double plain_ms = predict(bare.step, bare.card).step_ms;
    for (uint64_t k = 0; k < 4; ++k) {
      const Fates fates = k ? random_fates(bare.sketch, 4 * seed + k) : bare.sketch.nothing();
      const Sketch::Count count = bare.sketch.count(fates, kNoLimit);
      const Program made = schedule_early_updates(
          insert_clones(bare.view, bare.sketch.choice_of(fates), kClonesFar).program);
      EXPECT_EQ(count.bytes, peak_bytes(made, {}, {.inplace = false})) << seed << " " << k;
      EXPECT_NEAR(plain_ms + count.ms, predict(made, bare.card).step_ms, 1e-6) << seed << " " << k;
      larger += count.bytes > all.sketch.count(fates, kNoLimit).bytes;
    }
  }
  EXPECT_GT(larger, 0);
}

// Fates one after the other as a search asks for them: some change, many change, what was there
// before comes back, all begins anew.
class FateWalk {
 public:
  FateWalk(const Sketch& sketch, uint64_t seed)
      : sketch_(sketch), random_(seed), fates_(sketch.nothing()), before_(fates_) {}

  const Fates& next() {
    switch (random_() % 8) {
      case 0: fates_ = sketch_.nothing(); break;
      case 1: std::swap(fates_, before_); break;
      case 2: before_ = fates_, change(sketch_.open().size() / 3 + 1); break;
      default: change(random_() % 4 + 1);
    }
    return fates_;
  }
  int64_t next_limit(int64_t most) {
    const uint64_t what = random_() % 8;
    if (what == 0) limit_ = kNoLimit;
    if (what > 4) limit_ = most * int64_t(random_() % 100) / 100;
    return limit_;
  }

 private:
  void change(size_t count) {
    for (; count > 0; --count) {
      const StorageId s = sketch_.open()[random_() % sketch_.open().size()];
      // With a link, more go away than not.
      fates_[s] =
          sketch_.may_leave(s) ? Fate(std::min<uint64_t>(random_() % 4, 2)) : Fate(random_() % 2);
    }
  }

  const Sketch& sketch_;
  std::mt19937_64 random_;
  Fates fates_, before_;
  int64_t limit_ = 0;
};

// A count follows from the one before it: it is what a sketch counts that has counted nothing else.
TEST(Sketch, FollowsFromTheCountBefore) {
  int away = 0;
  const uint64_t networks = networks_asked(40);
  for (uint64_t seed = 0; seed < networks; ++seed) {
    const int layers = seed % 4 == 0 ? 48 : 12;
    const Program step = random_network(seed, {.layers = layers, .batch = 16, .width = 32});
    const double link = seed % 3 ? 1e5 * std::pow(10.0, double(seed / 3 % 4)) : 0;
    Sketched walked(step, link);
    if (walked.sketch.open().empty()) continue;
    FateWalk walk(walked.sketch, seed);
    const int64_t most = walked.sketch.count(walked.sketch.nothing(), kNoLimit).bytes;
    for (int k = 0; k < 60; ++k) {
      const Fates& fates = walk.next();
      away += std::count(fates.begin(), fates.end(), Fate::away) > 1;
      const int64_t limit = walk.next_limit(most);
      const Sketch::Count count = walked.sketch.count(fates, limit);
      Sketched fresh(step, link);
      const Sketch::Count same = fresh.sketch.count(fates, limit);
      ASSERT_EQ(count.bytes, same.bytes) << seed << " " << k;
      ASSERT_EQ(count.over, same.over) << seed << " " << k;
      ASSERT_EQ(count.ms, same.ms) << seed << " " << k;
      for (const StorageId s : walked.sketch.open()) {
        ASSERT_EQ(walked.sketch.is_needed(s), fresh.sketch.is_needed(s)) << seed << " " << k;
        ASSERT_EQ(walked.sketch.waits_above(s), fresh.sketch.waits_above(s)) << seed << " " << k;
      }
    }
  }
  EXPECT_GT(away, int(networks) * 20);
}

// What lies above a limit is summed over nodes, and nothing above the peak.
TEST(Sketch, NothingLiesAboveThePeak) {
  Sketched s(random_network(5, {.layers = 12}));
  const Fates none = s.sketch.nothing();
  const Sketch::Count count = s.sketch.count(none, kNoLimit);
  EXPECT_EQ(count.over, 0);
  EXPECT_EQ(s.sketch.count(none, count.bytes).over, 0);
  const double little = s.sketch.count(none, count.bytes - 64).over;
  EXPECT_GT(little, 0);
  EXPECT_GT(s.sketch.count(none, count.bytes / 2).over, little);
}

// A fast link takes maps away for nothing; a slow one has them still when they are needed.
TEST(Sketch, CopiesTakeTheirTime) {
  int fewer = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Program step = random_network(seed, {.layers = 12, .batch = 16, .width = 32});
    Sketched fast(step, 1e12), slow(step, 1);
    Fates away = fast.sketch.nothing();
    for (const StorageId s : fast.sketch.open()) {
      if (away[s] == Fate::keep && fast.sketch.may_leave(s)) away[s] = Fate::away;
    }
    const int64_t kept = fast.sketch.count(fast.sketch.nothing(), kNoLimit).bytes;
    const Sketch::Count gone = fast.sketch.count(away, kNoLimit);
    EXPECT_LE(gone.bytes, kept) << seed;
    EXPECT_EQ(slow.sketch.count(away, kNoLimit).bytes, kept) << seed;
    fewer += gone.bytes < kept;
  }
  EXPECT_GT(fewer, 10);
}

// What is smaller is not worth a copy, and without a link nothing leaves.
TEST(Sketch, LetsLeaveWhatIsWorthACopy) {
  const Program step = random_network(3, {.layers = 24, .batch = 16, .width = 32});
  Sketched linked(step, 1e9), alone(step);
  std::map<int64_t, int> by_bytes;
  for (const StorageId s : linked.sketch.open()) ++by_bytes[linked.view.storage_bytes[s]];
  ASSERT_GT(by_bytes.size(), 1u);
  const int64_t most = by_bytes.rbegin()->first;
  linked.sketch.let_leave(most), alone.sketch.let_leave(1);
  int leave = 0;
  for (const StorageId s : linked.sketch.open()) {
    EXPECT_FALSE(alone.sketch.may_leave(s));
    if (!linked.sketch.may_leave(s)) continue;
    EXPECT_EQ(linked.view.storage_bytes[s], most);
    ++leave;
  }
  EXPECT_GT(leave, 0);
}

// Down to a limit and back up: never above it where it could be reached, and no time is wasted.
TEST(Descent, KeepsToALimitThatItReaches) {
  int reached = 0;
  const uint64_t networks = networks_asked(30);
  for (uint64_t seed = 0; seed < networks; ++seed) {
    Sketched s(random_network(seed, {.layers = 12, .batch = 16, .width = 32}));
    if (s.sketch.open().empty()) continue;
    Descent descent(s.sketch, groups_of(s.sketch, s.view, seed % 2 ? 1000 : 8));
    const int64_t most = s.sketch.count(s.sketch.nothing(), kNoLimit).bytes;
    const int64_t limit = most * 97 / 100;
    if (!descent.lower(limit)) continue;
    ++reached;
    const double lowered = descent.now().ms;
    descent.raise(limit);
    EXPECT_LE(descent.now().ms, lowered) << seed;
    const double raised = descent.now().ms;
    descent.renew(limit, 6, 2000);
    EXPECT_LE(descent.now().ms, raised) << seed;
    EXPECT_EQ(descent.now().over, 0) << seed;
    const Sketch::Count again = s.sketch.count(descent.fates(), limit);
    EXPECT_LE(again.bytes, limit) << seed;
    EXPECT_EQ(again.ms, descent.now().ms) << seed;
  }
  EXPECT_GT(reached, int(networks) / 3);
}

// What one operator makes several times in a step of time has a group for each of these times.
TEST(Descent, GroupsHoldWhatHasOnePlaceInEachStepOfTime) {
  constexpr int kSteps = 10;
  Builder b;
  const Val scalars = b.input("scalars", scalars_spec());
  const std::vector<Val> w{b.state("w", {{64, 16}}, Role::weight)};
  Val h = b.input("x", {{64, 16}});
  std::map<ValueId, int> place;  // of what a step makes: 0, 1, 2
  for (int t = 0; t < kSteps; ++t) {
    const Builder::Within cell(b, "cell", t);
    for (int k = 0; k < 3; ++k) h = tanh(mul(h, w[0])), place[h.id] = k;
  }
  const Val loss = sum_all(h);
  b.output("loss", loss);
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, w, differentiate(b, loss, w), scalars, {});
  const Sketched s(b.take());
  std::map<int, int> members;
  for (const Descent::Group& group : groups_of(s.sketch, s.view, 6)) {
    std::set<int> places;
    for (const auto& [value, k] : place) {
      const bool is_in = std::count(group.begin(), group.end(), s.view.storage[value]) > 0;
      if (is_in) places.insert(k), ++members[k];
    }
    EXPECT_LE(places.size(), 1u);
  }
  EXPECT_EQ(members[0], kSteps);
  EXPECT_EQ(members[1], kSteps);
}

// Fewer bytes cost more time, and the same question has the same answer.
TEST(Choose, PlansAscendInTime) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Program step = random_network(seed, {.layers = 12, .batch = 16, .width = 32});
    const CompileOptions options;
    const int64_t floor = peak_bytes(step) / 3;
    const auto plans = choose_plans(step, options, toy_card(seed % 2 ? 1e8 : 0), floor);
    const auto same = choose_plans(step, options, toy_card(seed % 2 ? 1e8 : 0), floor);
    ASSERT_EQ(plans.size(), same.size());
    for (size_t i = 0; i < plans.size(); ++i) {
      EXPECT_EQ(plans[i].again, same[i].again);
      EXPECT_EQ(plans[i].away, same[i].away);
      EXPECT_EQ(plans[i].away.empty() || seed % 2, true);
      if (i == 0) continue;
      EXPECT_LT(plans[i].bytes, plans[i - 1].bytes) << seed;
      EXPECT_GT(plans[i].added_ms, plans[i - 1].added_ms) << seed;
    }
  }
}

// Beside the grid's sizes, and where these are far apart.
TEST(Choose, TriesSizesBetweenThoseOfTheGrid) {
  constexpr int kGrid = 32;
  int between = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Sketched s(random_network(seed, {.layers = 24, .batch = 16, .width = 32}));
    const auto most = double(s.sketch.count(s.sketch.nothing(), kNoLimit).bytes);
    const auto floor = int64_t(most / 4);
    for (const Chosen& plan : choose_plans(s.step, {}, s.card, floor)) {
      const double at =
          kGrid * std::log(double(plan.limit) / most) / std::log(double(floor) / most);
      if (plan.limit == plan.bytes) continue;  // as low as it comes
      const double off = std::abs(at - std::round(at));
      EXPECT_TRUE(off < 0.1 || off > 0.4) << at;
      between += off > 0.4;
    }
  }
  EXPECT_GT(between, 0);
}

TEST(Choose, NothingWhereThereIsNoChoice) {
  Builder b;
  Val x = b.input("x", {Shape{1024}});
  b.output("y", affine(affine(x)));
  EXPECT_TRUE(choose_plans(b.take(), {}, toy_card(), 64).empty());
}

}  // namespace
}  // namespace pal::test
