// What a manager decided as nodes of a step: nothing is lost, copies are whole, waits are needed.
#include "memory/dynamic/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/order.h"
#include "core/verify.h"
#include "memory/dynamic/policy.h"
#include "ops/elementwise/add.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/views.h"
#include "tests/memory/dynamic/ladder.h"

namespace pal::test {
namespace {

// Where copies are all but free, so that a manager copies and makes nothing again.
StepFacts facts_with_fast_link(const Ready& ready) {
  DeviceProfile fast = Ladder().card;
  fast.link = 1e12;
  return {ready.program, ready.storages, fast};
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

// What was stacked in place leaves in one copy, not in one for each part.
TEST(Lowering, AGatheredValueIsOneCopy) {
  Builder b;
  const Val s =
      stack({tanh(b.input("x0", {{kSide, kSide}})), tanh(b.input("x1", {{kSide, kSide}}))});
  const Val z = tanh(tanh(b.input("w", {{2 * kSide, kSide}})));
  b.output("loss", pal::add(sum_all(s), sum_all(z)));
  const Ready r(b.take(), {.inplace = false});
  const StepFacts facts = facts_with_fast_link(r);
  const Decisions d = decide(facts, {.manager = Manager::delta, .start = 1}, 5 * kBytes, kMuch);
  EXPECT_EQ(d.stats.offloads, 1);
  const Lowered step = lowered(facts, d, r.layout);
  EXPECT_EQ(std::count_if(step.program.nodes.begin(), step.program.nodes.end(),
                          [](const Node& node) { return node.phase == Phase::offload; }),
            1);
}

// What came back as a whole is read in parts, on whole bytes also where an element has a bit.
TEST(Lowering, APartOfWhatCameBackIsAWindow) {
  for (const bool bits : {false, true}) {
    Builder b;
    const auto made = [&](const std::string& name) {
      if (!bits) return tanh(b.input(name, {{kSide, kSide}}));
      return to_bits(b.input(name, {{kSide, 32 * kSide}}), 0);
    };
    const auto read = [&](Val v) { return bits ? to_bits(v, 0.5f) : sum_all(v); };
    const std::vector<Val> parts{made("x0"), made("x1")};
    const Val whole = stack(parts);
    b.output("z", sum_all(tanh(tanh(b.input("w", {{2 * kSide, kSide}})))));
    b.output("whole", read(whole));
    b.output("first", read(parts[0])), b.output("second", read(parts[1]));
    const Ready r(b.take(), {.inplace = false});
    const StepFacts facts = facts_with_fast_link(r);
    const Decisions d = decide(facts, {.manager = Manager::delta, .start = 1}, 5 * kBytes, kMuch);
    EXPECT_GT(d.stats.reloads, 0);
    const Lowered step = lowered(facts, d, r.layout);
    EXPECT_NO_THROW(verify(step.program));
    EXPECT_NO_THROW(check_plan(step.program, step.storages, step.plan));
    EXPECT_EQ(std::count_if(step.program.nodes.begin(), step.program.nodes.end(),
                            [](const Node& node) { return node.op == &slice_op; }),
              2)
        << bits;
  }
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

}  // namespace
}  // namespace pal::test
