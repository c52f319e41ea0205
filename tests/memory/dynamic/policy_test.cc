// What a manager decides, on steps small enough to be read.
#include "memory/dynamic/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/builder.h"
#include "core/error.h"
#include "memory/dynamic/manage.h"
#include "memory/dynamic/pieces.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "tests/memory/dynamic/ladder.h"

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
      case Action::Kind::nothing: break;
    }
  }
  return out;
}

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

// y_0 is evicted, and then y_1, which would have to be made of it, is copied out. When y_1 is read
// y_0 is back: y_1 is made again where that takes less than its copy.
TEST(Policy, WhatIsInTheHostsMemoryMayBeMadeAgain) {
  Builder b;
  Val y0 = tanh(b.input("x", {{kSide, kSide}})), y1 = tanh(y0);
  Val z1 = tanh(b.input("w", {{kSide, kSide}})), z2 = tanh(z1), z3 = mul(z1, z2);
  Val z = mul(mul(z3, z1), z2);
  b.output("loss", sum_all(mul(mul(mul(z, y0), y1), y0)));
  const Ready r(b.take(), {.inplace = false});
  StepFacts facts(r.program, r.storages, Ladder().card);
  const double copy = facts.copy_ms(r.storages.of[y1.id]);
  const auto decided = [&](double again) {
    facts.ms[0] = 0.75 * copy, facts.ms[1] = again * copy;
    return decide(facts, {.manager = Manager::delta, .filter = Filter::lru, .start = 1}, 4 * kBytes,
                  kMuch)
        .stats;
  };
  const DynamicStats quick = decided(0.75), slow = decided(1.25);
  EXPECT_EQ(quick.evictions, 1);
  EXPECT_EQ(quick.offloads, 0) << "nobody reads the copy";
  EXPECT_EQ(quick.reloads, 0);
  EXPECT_EQ(quick.recomputes, 2);
  EXPECT_EQ(slow.offloads, 1);
  EXPECT_EQ(slow.reloads, 1);
  EXPECT_EQ(slow.recomputes, 1);
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
  const auto with = [&](int prefetch, double start = 0.8) {
    return decide(
        ladder.facts(),
        {.manager = Manager::delta, .filter = Filter::lru, .start = start, .prefetch = prefetch},
        4 * kBytes, kMuch);
  };
  const Decisions none = with(0), some = with(4);
  EXPECT_EQ(with(4, 0.2).stats.prefetches, 0) << "memory is not enough: what runs takes it";
  EXPECT_EQ(none.stats.prefetches, 0);
  EXPECT_GT(some.stats.prefetches, 0);
  EXPECT_EQ(some.stats.prefetches, some.stats.prefetch_hits);
}

TEST(Policy, DecidesAlikeTwice) {
  int decided = 0;
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
      decided += !a.empty();
      ASSERT_TRUE(
          std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Action& x, const Action& y) {
            return x.kind == y.kind && x.node == y.node && x.storage == y.storage &&
                   x.place == y.place && x.made == y.made;
          }));
    }
  }
  EXPECT_GT(decided, 40);
}

TEST(Policy, DtrMakesAgainByEveryHeuristic) {
  const Ladder ladder;
  for (const DtrHeuristic heuristic : {DtrHeuristic::full, DtrHeuristic::eq, DtrHeuristic::local,
                                       DtrHeuristic::lru, DtrHeuristic::size, DtrHeuristic::msps}) {
    const Decisions d =
        decide(ladder.facts(), {.manager = Manager::dtr, .dtr = heuristic}, 3 * kBytes, kMuch);
    EXPECT_EQ(d.stats.offloads, 0);
    EXPECT_GT(d.stats.recomputes, 0) << name_of(heuristic);
  }
}

// At most so many nodes run again in a chain that is read from its end, and no storage comes back
// without an end.
Program long_chain(int nodes) {
  Builder b;
  std::vector<Val> y{tanh(b.input("x", {{kSide, kSide}}))};
  while (int(y.size()) < nodes) y.push_back(tanh(y.back()));
  Val g = y.back();
  for (size_t i = y.size() - 1; i-- > 0;) g = mul(g, y[i]);
  b.output("loss", sum_all(g));
  Program p = b.take();
  for (NodeId n = NodeId(nodes); n < p.node_count(); ++n) p.node(n).phase = Phase::backward;
  return p;
}

TEST(Policy, StopsWhereAStepWouldRunWithoutAnEnd) {
  const Ready r(long_chain(60), {.inplace = false});
  StepFacts facts(r.program, r.storages, Ladder().card);
  const auto refusal = [&] {
    const DynamicOptions lru{.manager = Manager::dtr, .dtr = DtrHeuristic::lru};
    return message_of<BudgetError>([&] { decide(facts, lru, 4 * kBytes, kMuch); });
  };
  std::string said = refusal();
  EXPECT_NE(said.find("runs nodes again for more than 4 times the step's own time"),
            std::string::npos)
      << said;
  facts.step_ms *= 1000;  // as if something else took most of it
  said = refusal();
  EXPECT_NE(said.find("brings one storage back 23 times for 3 nodes that use it; most often came "
                      "back: tanh f32[128,128] (value 55) (23 times); tanh"),
            std::string::npos)
      << said;
}

// What delta has made again eight times it copies out, however slow the link is.
TEST(Policy, DeltaMakesNothingAgainForEver) {
  Builder b;
  Val y = tanh(b.input("x", {{kSide, kSide}})), g = y;
  for (int i = 0; i < 20; ++i) {  // y leaves for the inner product, and is read by the outer one
    Val t = tanh(g);
    g = mul(mul(t, g), y);
  }
  b.output("loss", sum_all(g));
  const Ready r(b.take(), {.inplace = false});
  DeviceProfile slow = Ladder().card;
  slow.link = 1e6;
  const StepFacts facts(r.program, r.storages, slow);
  const Decisions d = decide(facts, {.manager = Manager::delta, .filter = Filter::lru, .start = 1},
                             3 * kBytes, kMuch);
  std::map<StorageId, int> again;
  for (const Action& action : d.actions) {
    for (StorageId s : action.made) ++again[s];
  }
  int most = 0;
  for (const auto& [s, count] : again) most = std::max(most, count);
  EXPECT_EQ(most, 8);
  EXPECT_GT(d.stats.offloads, 0);
}

TEST(Policy, ReleasesInTheBackwardPhaseWhereAllowed) {
  Program p = long_chain(8);
  for (Node& node : p.nodes) node.phase = Phase::backward;
  const Ready r(p, {.inplace = false});
  const StepFacts facts(r.program, r.storages, Ladder().card);
  const auto released = [&](bool in_backward) {
    const DynamicStats stats =
        decide(facts, {.manager = Manager::delta, .start = 0.3, .release_in_backward = in_backward},
               20 * kBytes, kMuch)
            .stats;
    return stats.evictions + stats.offloads;
  };
  EXPECT_GT(released(true), 0);
  EXPECT_EQ(released(false), 0) << "memory is not short";
}

std::string made_again(const Program& p, Dealloc dealloc, int64_t* evictions = nullptr) {
  const Ready r(p, {.inplace = false});
  const StepFacts facts(r.program, r.storages, Ladder().card);
  const Decisions d =
      decide(facts, {.manager = Manager::dtr, .dtr = DtrHeuristic::lru, .dealloc = dealloc},
             3 * kBytes, kMuch);
  std::string out;
  for (const Action& action : d.actions) {
    if (action.kind == Action::Kind::again) out += std::to_string(action.node) + " ";
  }
  if (evictions) *evictions = d.stats.evictions;
  return out;
}

// y_1 is evicted while y_0, of which it is made, is in use. After its last use y_0 stays for y_1,
// and goes as soon as that is back; at once, where storages are not banished.
TEST(Policy, BanishKeepsWhatAnEvictedStorageIsMadeOf) {
  Builder b;
  Val y0 = tanh(b.input("x", {{kSide, kSide}})), y1 = tanh(y0);
  Val z = mul(mul(y0, y0), y0);
  b.output("loss", sum_all(mul(mul(z, z), y1)));
  const Program p = b.take();
  int64_t evictions = 0;
  EXPECT_EQ(made_again(p, Dealloc::banish, &evictions), "1 ");
  EXPECT_EQ(evictions, 1);
  EXPECT_EQ(made_again(p, Dealloc::eager), "0 1 ");
}

// Likewise where it had to be made again for that.
TEST(Policy, WhatWasMadeForAnotherIsBanishedAfterwards) {
  Builder b;
  Val y0 = tanh(b.input("x", {{kSide, kSide}})), y1 = tanh(y0);
  Val z = mul(mul(y0, y0), y0), c = mul(z, z);
  b.output("loss", sum_all(mul(mul(c, z), y1)));
  int64_t evictions = 0;
  EXPECT_EQ(made_again(b.take(), Dealloc::banish, &evictions), "0 1 ");
  EXPECT_EQ(evictions, 2) << "y_1, then y_0, and y_0 not once more";
}

// y_0 is banished as long as nothing that is made of it is evicted; then y_1 cannot be made again.
TEST(Policy, WhatABanishedStorageMadeStays) {
  Builder b;
  Val y0 = tanh(b.input("x", {{kSide, kSide}})), y1 = tanh(y0), y2 = tanh(y1), y3 = tanh(y2);
  b.output("loss", sum_all(mul(mul(mul(y3, y2), y1), y1)));
  const Program p = b.take();
  EXPECT_EQ(made_again(p, Dealloc::eager), "0 1 ");
  EXPECT_NE(message_of<BudgetError>([&] {
              made_again(p, Dealloc::banish);
            }).find("nothing else can leave"),
            std::string::npos);
}

// Updates have no results but state, which does not come and go.
TEST(Facts, GatesAreNotMadeAgain) {
  int gates = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Ready r(random_program(seed, {.nodes = 30, .gated = true}), {.inplace = false});
    const StepFacts facts(r.program, r.storages, Ladder().card);
    for (ValueId v : r.program.values.ids()) {
      if (r.program.value(v).role != Role::gate) continue;
      EXPECT_EQ(facts.remakable[r.storages.of[v]], std::vector<NodeId>{kNone});
      ++gates;
    }
  }
  EXPECT_GT(gates, 10);
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
