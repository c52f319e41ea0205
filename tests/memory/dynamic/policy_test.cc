// What a manager decides, on steps small enough to be read.
#include "memory/dynamic/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/builder.h"
#include "core/error.h"
#include "core/order.h"
#include "core/verify.h"
#include "memory/dynamic/manage.h"
#include "memory/dynamic/pieces.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

TEST(Pieces, TakesTheSmallestPieceThatFits) {
  Pieces pieces(1000);
  EXPECT_EQ(pieces.take(100), 0);
  EXPECT_EQ(pieces.take(300), 100);
  EXPECT_EQ(pieces.take(100), 400);
  EXPECT_EQ(pieces.take(200), 500);
  pieces.give_back(100, 300);
  pieces.give_back(500, 200);  // and what is free behind it
  EXPECT_EQ(pieces.largest(), 500);
  EXPECT_EQ(pieces.take(250), 100) << "300 bytes, rather than 500";
  EXPECT_EQ(pieces.take(600), -1);
  pieces.give_back(400, 100);
  EXPECT_EQ(pieces.largest(), 650) << "with the neighbours on both sides";
  EXPECT_EQ(pieces.free_bytes(), 650);
  pieces.take_at(500, 64);
  EXPECT_EQ(pieces.pieces(), (std::map<int64_t, int64_t>{{350, 150}, {564, 436}}));
  EXPECT_EQ(pieces.highest(), 700);
}

constexpr int64_t kSide = 128, kBytes = kSide * kSide * 4;

// y0 .. y3 are made one after the other and read from the last to the first.
Program ladder() {
  Builder b;
  Val x = b.input("x", {{kSide, kSide}});
  std::vector<Val> y{tanh(x)};
  for (int i = 1; i < 4; ++i) y.push_back(tanh(y.back()));
  Val g = mul(y[3], y[3]);
  for (int i = 3; i-- > 0;) g = mul(g, y[size_t(i)]);
  b.output("loss", sum_all(g));
  Program p = b.take();
  for (NodeId n = 4; n < p.node_count(); ++n) p.node(n).phase = Phase::backward;
  return p;
}

struct Ladder {
  Ready ready{ladder(), {.inplace = false}};
  DeviceProfile card{
      .name = "card", .f32 = 1e12, .vector = 1e11, .memory = 1e11, .link = 1e10, .tile = 1};
  StepFacts facts() const { return {ready.program, ready.storages, card}; }
  // The storage of y_i, and everything that happens to it but use.
  StorageId y(int i) const { return ready.storages.of[ready.program.node(i).out[0]]; }
};

std::string told(const Decisions& decisions, const Ladder& ladder) {
  std::string out;
  for (const Action& action : decisions.actions) {
    const auto name = [&](StorageId s) {
      for (int i = 0; i < 4; ++i) {
        if (ladder.y(i) == s) return "y" + std::to_string(i);
      }
      return std::string("other");
    };
    switch (action.kind) {
      case Action::Kind::run: out += std::to_string(action.node) + " "; break;
      case Action::Kind::again: out += "again:" + name(action.made[0]) + " "; break;
      case Action::Kind::take: break;
      case Action::Kind::offload: out += "out:" + name(action.storage) + " "; break;
      case Action::Kind::reload: out += "in:" + name(action.storage) + " "; break;
      case Action::Kind::move: out += "move:" + name(action.storage) + " "; break;
    }
  }
  return out;
}

constexpr int64_t kMuch = 1 << 30;

TEST(Policy, DirectorComparesWithTheLink) {
  Ladder ladder;
  // Room for three: where the link is slow what leaves is made again, where it is fast, copied.
  const Decisions slow =
      decide(ladder.facts(), {.manager = Manager::delta, .start = 1}, 3 * kBytes, kMuch);
  EXPECT_EQ(slow.stats.offloads, 0);
  EXPECT_GT(slow.stats.evictions, 0);
  EXPECT_EQ(slow.stats.evictions, slow.stats.recomputes);
  ladder.card.link = 1e12;
  const Decisions fast =
      decide(ladder.facts(), {.manager = Manager::delta, .start = 1}, 3 * kBytes, kMuch);
  EXPECT_GT(fast.stats.offloads, 0);
  EXPECT_EQ(fast.stats.recomputes, 0);
  // No room in the host's memory: offload_pinned.
  const Decisions full =
      decide(ladder.facts(), {.manager = Manager::delta, .start = 1}, 3 * kBytes, 0);
  EXPECT_EQ(full.stats.offloads, 0);
  EXPECT_EQ(told(full, ladder), told(slow, ladder));
}

TEST(Policy, FilterPicksTheOldest) {
  const Ladder ladder;
  const Decisions lru =
      decide(ladder.facts(), {.manager = Manager::delta, .filter = Filter::lru, .start = 1},
             3 * kBytes, kMuch);
  // y0, then y1 left; y1 is made of y0, which has to leave once more for it.
  EXPECT_EQ(told(lru, ladder), "0 1 2 3 4 5 again:y0 again:y1 6 again:y0 7 8 ");
}

TEST(Policy, ReleasesEarly) {
  const Ladder ladder;
  const auto evictions = [&](double start) {
    return decide(ladder.facts(), {.manager = Manager::delta, .start = start}, 8 * kBytes, kMuch)
        .stats.evictions;
  };
  EXPECT_EQ(evictions(1), 0);
  EXPECT_GT(evictions(0.4), 0);
}

TEST(Policy, PrefetchesTheNearestUseFirst) {
  Ladder ladder;
  ladder.card.link = 1e12;
  const auto with = [&](int prefetch) {
    return decide(
        ladder.facts(),
        {.manager = Manager::delta, .filter = Filter::lru, .start = 0.8, .prefetch = prefetch},
        4 * kBytes, kMuch);
  };
  const Decisions none = with(0), some = with(4);
  EXPECT_EQ(none.stats.prefetches, 0);
  EXPECT_GT(some.stats.prefetches, 0);
  EXPECT_EQ(some.stats.prefetches, some.stats.prefetch_hits);
}

TEST(Policy, DecidesAlikeTwice) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Ready r(random_program(seed, {.nodes = 60}), {.inplace = false});
    const StepFacts facts(r.program, r.storages, Ladder().card);
    for (const Manager manager : {Manager::delta, Manager::dtr}) {
      const auto once = [&]() -> std::vector<Action> {
        try {
          return decide(facts, {.manager = manager}, 2 * facts.largest_bytes, kMuch).actions;
        } catch (const BudgetError&) {
          return {};
        }
      };
      const std::vector<Action> a = once(), b = once();
      ASSERT_TRUE(
          std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Action& x, const Action& y) {
            return x.kind == y.kind && x.node == y.node && x.storage == y.storage &&
                   x.place == y.place && x.made == y.made;
          }));
    }
  }
}

TEST(Policy, DtrChainsLeaveByTheirHeuristic) {
  const Ladder ladder;
  for (const DtrHeuristic heuristic : {DtrHeuristic::full, DtrHeuristic::eq, DtrHeuristic::local,
                                       DtrHeuristic::lru, DtrHeuristic::size, DtrHeuristic::msps}) {
    const Decisions d =
        decide(ladder.facts(), {.manager = Manager::dtr, .dtr = heuristic}, 3 * kBytes, kMuch);
    EXPECT_EQ(d.stats.offloads, 0);
    EXPECT_GT(d.stats.recomputes, 0) << name_of(heuristic);
  }
}

// What the lowered step would miss is noticed.
TEST(Lowering, ALostRerunIsNoticed) {
  const Ladder ladder;
  const StepFacts facts = ladder.facts();
  Decisions d = decide(facts, {.manager = Manager::dtr}, 3 * kBytes, kMuch);
  const auto again = std::find_if(d.actions.begin(), d.actions.end(),
                                  [](const Action& a) { return a.kind == Action::Kind::again; });
  ASSERT_NE(again, d.actions.end());
  verify(lowered(facts, d, ladder.ready.layout).program);
  d.actions.erase(again);
  EXPECT_NE(message_of([&] { lowered(facts, d, ladder.ready.layout); }).find("lost"),
            std::string::npos);
}

TEST(Lowering, ALostWaitIsNoticed) {
  Ladder ladder;
  ladder.card.link = 1e12;
  const StepFacts facts = ladder.facts();
  const Decisions d = decide(facts, {.manager = Manager::delta, .start = 1}, 3 * kBytes, kMuch);
  const Lowered step = lowered(facts, d, ladder.ready.layout);
  int waits = 0;
  for (NodeId n : step.program.nodes.ids()) {
    for (size_t i = 0; i < step.program.node(n).waits.size(); ++i) {
      Lowered other = step;
      auto& list = other.program.node(n).waits;
      const NodeId lost = list[i];
      list.erase(list.begin() + std::ptrdiff_t(i));
      if (Order(other.program).before(lost, n)) continue;  // others imply it
      ++waits;
      EXPECT_THROW(
          {
            verify(other.program);
            check_plan(other.program, other.storages, other.plan);
          },
          ProgramError)
          << "node " << n << " without wait " << i;
    }
  }
  EXPECT_GT(waits, 4);
}

TEST(Manage, SaysWhatIsMissing) {
  const Ladder ladder;
  const StepFacts facts = ladder.facts();
  const int64_t least = least_managed(facts, ladder.ready.layout);
  const std::string few = message_of<BudgetError>(
      [&] { manage(facts, ladder.ready.layout, {.manager = Manager::delta}, least - 64); });
  EXPECT_NE(few.find("64 B short of"), std::string::npos) << few;
  EXPECT_NE(few.find("[mul]"), std::string::npos) << few;
  EXPECT_NO_THROW(manage(facts, ladder.ready.layout, {.manager = Manager::delta}, least));
  EXPECT_TRUE(is_managed_within(facts, ladder.ready.layout, {.manager = Manager::delta}, least));
}

}  // namespace
}  // namespace pal::test
