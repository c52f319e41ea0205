// Who leaves the slab, for where, and until when its bytes are nobody's.
#include "memory/dynamic/slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/builder.h"
#include "core/error.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

constexpr int64_t kUnit = 1 << 16;  // bytes
const DeviceProfile kSlabCard{
    .name = "card", .f32 = 1e12, .vector = 1e11, .memory = 1e11, .link = 1e10, .tile = 1};

// y_0, y_1 .. of so many units each, made one after the other, and read in the end.
Program row(const std::vector<int64_t>& units) {
  Builder b;
  std::vector<Val> y;
  for (size_t i = 0; i < units.size(); ++i) {
    y.push_back(tanh(b.input("x" + std::to_string(i), {{units[i] * kUnit / 4}})));
  }
  Val loss = sum_all(mul(y[0], y[0]));
  for (size_t i = 1; i < y.size(); ++i) loss = pal::add(loss, sum_all(mul(y[i], y[i])));
  b.output("loss", loss);
  return b.take();
}

struct Row {
  Ready ready;
  StepFacts facts{ready.program, ready.storages, kSlabCard};
  DynamicOptions options;
  Ledger ledger{facts, options};
  Decisions out;
  Slab slab;

  Row(const std::vector<int64_t>& units, DynamicOptions some, int64_t slab_units,
      int64_t host_units = 1 << 10)
      : ready(row(units), {.inplace = false}),
        options(some),
        slab(facts, options, ledger, slab_units * kUnit, host_units * kUnit, out) {}

  StorageId y(int i) const { return ready.storages.of[ready.program.node(i).out[0]]; }
  Whereabouts& at(int i) { return ledger[y(i)]; }
  Where where(int i) { return at(i).where; }
  double copy_ms(int i) const { return facts.copy_ms(y(i)); }
  void make(int i) {
    slab.take(y(i));
    at(i).written = at(i).made = 1;
    slab.used(y(i));
  }
  // Each is used a millisecond after the one before.
  void use(std::initializer_list<int> order) {
    for (int i : order) slab.clock += 1, slab.used(y(i));
  }
  // This one and no other.
  void release(int i) {
    std::vector<int> pinned;
    for (StorageId s : ready.storages.list.ids()) ledger[s].pins += s != y(i);
    ASSERT_TRUE(slab.release_one());
    for (StorageId s : ready.storages.list.ids()) ledger[s].pins -= s != y(i);
  }
  int count(Action::Kind kind) const {
    return int(std::count_if(out.actions.begin(), out.actions.end(),
                             [&](const Action& a) { return a.kind == kind; }));
  }
};
constexpr DynamicOptions kCopies{.manager = Manager::delta, .evicts = false, .start = 1};
constexpr DynamicOptions kLocal{.manager = Manager::dtr, .dtr = DtrHeuristic::local};

TEST(Slab, BytesAreFreeWhenTheirCopyIsDone) {
  Row row({1, 1, 1}, kCopies, 2);
  row.make(0), row.make(1);
  EXPECT_EQ(row.slab.clock, 0);
  row.make(2);  // y_0 leaves for it
  EXPECT_EQ(row.where(0), Where::host);
  EXPECT_DOUBLE_EQ(row.slab.clock, row.copy_ms(0));
  EXPECT_EQ(row.at(2).place, 0);
}

TEST(Slab, ACopyUnderWayCanBeTakenBackAndIsNotMadeTwice) {
  Row row({1, 1, 1}, kCopies, 3);
  row.make(0), row.make(1);
  row.release(0);
  EXPECT_EQ(row.where(0), Where::leaving);
  row.slab.stay(row.y(0));
  EXPECT_EQ(row.where(0), Where::device);
  row.release(0);
  EXPECT_EQ(row.where(0), Where::leaving) << "its copy is not done yet";
  EXPECT_EQ(row.count(Action::Kind::offload), 1);
  row.slab.clock = row.copy_ms(0);
  row.slab.settle();
  EXPECT_EQ(row.where(0), Where::host);
  row.slab.reload(row.y(0));
  row.release(0);
  EXPECT_EQ(row.where(0), Where::host) << "at once: the host's memory has it";
  EXPECT_EQ(row.count(Action::Kind::offload), 1);
  // What is written over has no copy any more, and its place there is free for others.
  row.slab.reload(row.y(0));
  row.slab.drop_copy(row.y(0));
  row.release(1);
  row.release(0);
  EXPECT_EQ(row.count(Action::Kind::offload), 3);
  EXPECT_EQ(row.at(1).host_place, 0);
}

TEST(Slab, CopiesBackRunOneAfterTheOther) {
  Row row({1, 1}, kCopies, 2);
  row.make(0), row.make(1);
  row.release(0), row.release(1);
  row.slab.clock = 2 * row.copy_ms(0);
  row.slab.settle();
  row.slab.reload(row.y(1)), row.slab.reload(row.y(0));
  EXPECT_DOUBLE_EQ(row.at(1).arrives_ms, 3 * row.copy_ms(0));
  EXPECT_DOUBLE_EQ(row.at(0).arrives_ms, 4 * row.copy_ms(0));
}

TEST(Slab, TheHostsMemoryBoundsTheCopies) {
  Row row({1, 1, 1}, kCopies, 2, 1);
  row.make(0), row.make(1);
  row.release(0);
  EXPECT_FALSE(row.slab.release_one());
  EXPECT_NO_THROW(row.make(2));
  EXPECT_THROW(row.slab.reload(row.y(0)), BudgetError) << "nothing else can leave";
}

TEST(Slab, DirectorPrefersACopyThatIsThere) {
  Row row({1, 1}, {.manager = Manager::delta, .start = 1}, 2);
  row.make(0);
  row.facts.ms[0] = 1.5 * row.copy_ms(0);
  row.release(0);
  EXPECT_EQ(row.where(0), Where::leaving) << "a copy takes less than making it again";
  row.slab.clock = row.copy_ms(0);
  row.slab.settle();
  row.slab.reload(row.y(0));
  row.facts.ms[0] = 0.5 * row.copy_ms(0);
  row.release(0);
  EXPECT_EQ(row.where(0), Where::host) << "no copy takes less still";
  row.make(1);
  row.facts.ms[1] = 0.5 * row.copy_ms(1);
  row.release(1);
  EXPECT_EQ(row.where(1), Where::nowhere);
}

// y_0 and y_2 stay between the bytes of y_1 and y_3, which leave first. Then there are enough free
// bytes, in two pieces.
TEST(Slab, TheCheapestNeighboursMakeOnePiece) {
  Row row({1, 1, 1, 1, 1, 1, 2}, kLocal, 6);
  for (int i = 0; i < 6; ++i) row.make(i);
  row.use({1, 3, 5, 2, 4, 0});
  row.make(6);
  EXPECT_EQ(row.where(1), Where::nowhere);
  EXPECT_EQ(row.where(3), Where::nowhere);
  EXPECT_EQ(row.where(2), Where::nowhere) << "it lies between the two";
  EXPECT_EQ(row.where(5), Where::device) << "it would go first, but is of no use";
  EXPECT_EQ(row.where(0), Where::device);
  EXPECT_EQ(row.at(6).place, kUnit);
  EXPECT_GT(row.out.stats.fragmentation, 0);
}

// Nothing can leave: what moves the fewest bytes aside moves.
TEST(Slab, WhatIsInTheWayMovesAside) {
  Row row({2, 1, 1, 2, 3}, kLocal, 6);
  for (int i = 0; i < 4; ++i) row.make(i);  // 0 0 1 2 3 3
  row.slab.forget(row.y(1), false), row.slab.forget(row.y(3), false);
  row.at(0).pins = row.at(2).pins = 1;
  row.make(4);  // 0 0 . 2 . . -> 0 0 2 4 4 4
  EXPECT_EQ(row.at(0).place, 0);
  EXPECT_EQ(row.at(2).place, 2 * kUnit);
  EXPECT_EQ(row.at(4).place, 3 * kUnit);
  EXPECT_EQ(row.count(Action::Kind::move), 1);
  EXPECT_EQ(row.out.stats.compactions, 1);
  EXPECT_DOUBLE_EQ(row.slab.clock, row.facts.move_ms(row.y(2)));
}

TEST(Slab, AWindowMayBeginWithinWhatMoves) {
  Row row({1, 1, 2, 2, 3}, kLocal, 6);
  for (int i = 0; i < 4; ++i) row.make(i);  // 0 1 2 2 3 3
  row.slab.forget(row.y(1), false), row.slab.forget(row.y(3), false);
  row.at(0).pins = row.at(2).pins = 1;
  row.make(4);  // 0 . 2 2 . . -> 0 4 4 4 2 2
  EXPECT_EQ(row.at(2).place, 4 * kUnit);
  EXPECT_EQ(row.at(4).place, kUnit);
}

TEST(Slab, RefusesByName) {
  Row row({1, 1, 1}, kLocal, 2);
  row.make(0), row.make(1);
  row.at(0).pins = row.at(1).pins = 1;
  const std::string said = message_of<BudgetError>([&] { row.make(2); });
  EXPECT_NE(said.find("memory.manager: dtr finds no 65.5 kB in one piece"), std::string::npos)
      << said;
  EXPECT_NE(said.find("131 kB are in use by the node at hand"), std::string::npos) << said;
}

}  // namespace
}  // namespace pal::test
