// The bound, the optimum and the planner: bound <= optimum <= what the front picks, on steps small
// enough for CBC (tests/memory/front/checkmate.h).
//
// PAL_TEST_ORACLES: how many random networks, eight budgets each. A few unless told: the rest of
// them, and what the ratios came to, are in docs/results/budget.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "memory/front/bound.h"
#include "memory/front/pool.h"
#include "memory/passes/parts.h"
#include "tests/memory/front/chain_network.h"
#include "tests/memory/front/checkmate.h"
#include "tests/memory/front/pieces.h"
#include "tests/memory/toy_card.h"

namespace pal::test {
namespace {

constexpr double kRounding = 1e-6;

// The planner in the oracle's terms: the program's order and nodes, nothing in place, no bits.
CompileOptions in_oracle_terms() {
  CompileOptions options{.profile = toy_card()};
  options.inplace = false, options.schedule = Schedule::program;
  options.fuse_recompute = options.fuse_epilogues = options.fuse_updates = options.layouts = false;
  options.recompute_options.bits = false;
  return options;
}

struct Ratios {
  std::vector<double> bound, front;  // optimum / bound, front / optimum
  int budgets = 0, proved = 0, nowhere = 0, unreached = 0;

  static double at(std::vector<double> list, double part) {
    if (list.empty()) return 0;
    std::sort(list.begin(), list.end());
    return list[std::min(list.size() - 1, size_t(part * double(list.size())))];
  }
  void print(const char* what) const {
    std::printf(
        "%s: %d budgets, %d solved, %d of them impossible, %d not reached by the front; "
        "optimum over bound: median %.4f, 90 %% %.4f, most %.4f; front over optimum: median "
        "%.4f, 90 %% %.4f, most %.4f\n",
        what, budgets, proved, nowhere, unreached, at(bound, 0.5), at(bound, 0.9), at(bound, 1),
        at(front, 0.5), at(front, 0.9), at(front, 1));
  }
};

// Eight budgets between what the step takes and what no plan goes below.
void compare(const Program& step, const CheckmateOptions& how, Ratios& ratios,
             const std::string& where) {
  Program program = step;
  for (ValueId v : program.values.ids()) program.value(v).origin = v;
  KernelCache cache{Device{}};
  const StateLayout layout(program);
  const CompileOptions options = in_oracle_terms();
  const Front front = make_front(program, cache, layout, options);
  Bound bound(program, layout, options, *options.profile, {.bits = false});
  Bound in_order(program, layout, options, *options.profile,
                 {.any_order = false, .bits = false, .in_place = false});
  const int64_t most = front.points.back().bytes, least = in_order.least_bytes();
  ASSERT_LE(bound.least_bytes(), least) << where;
  for (int k = 0; k < 8; ++k) {
    const int64_t budget = most - (most - least) * k / 8;
    const CheckmateTime optimum = checkmate_time(program, options, budget, how);
    ++ratios.budgets, ratios.proved += optimum.proved || !optimum.possible;
    const FrontPoint* pick = nullptr;
    for (const FrontPoint& point : front.points) {
      // Bits are no choice of the oracle's; segments run again more than once.
      const bool other =
          point.encoded > 0 || (how.once && point.options.recompute == Recompute::reruns);
      if (point.bytes <= budget && !other) pick = &point;
    }
    if (!optimum.possible) {
      ++ratios.nowhere;
      EXPECT_FALSE(pick) << where << ": " << budget << " bytes, " << pick->from;
      continue;
    }
    for (Bound* each : {&bound, &in_order}) {
      each->sharpen(budget, 30);
      ASSERT_LE(each->ms(budget), optimum.found * (1 + kRounding)) << where << ": " << budget;
    }
    ratios.unreached += !pick;
    if (pick) {
      ASSERT_GE(pick->step_ms, optimum.least * (1 - kRounding)) << where << ": " << budget;
    }
    if (!optimum.proved) continue;
    ratios.bound.push_back(optimum.found / in_order.ms(budget));
    if (pick) ratios.front.push_back(pick->step_ms / optimum.found);
  }
}

uint64_t oracles_asked(uint64_t usual) {
  const char* asked = std::getenv("PAL_TEST_ORACLES");
  return asked ? uint64_t(std::atoll(asked)) : usual;
}

// The planner's own model: a node runs again once at most.
TEST(BoundOracle, OnceAtMost) {
  Ratios ratios;
  for (uint64_t seed = 0; seed < oracles_asked(2); ++seed) {
    const Program step =
        chain_network(seed, {.layers = 5 + int(seed % 4), .predicates = seed % 3 == 0});
    compare(step, {.once = true}, ratios, "seed " + std::to_string(seed));
  }
  ratios.print("once");
  EXPECT_GT(ratios.proved, ratios.budgets / 2);
  EXPECT_FALSE(ratios.front.empty());
}

// Checkmate: as often as it likes.
TEST(BoundOracle, AsOftenAsItLikes) {
  Ratios ratios;
  for (uint64_t seed = 0; seed < oracles_asked(2); ++seed) {
    const Program step =
        chain_network(seed, {.layers = 5 + int(seed % 4), .predicates = seed % 3 == 0});
    compare(step, {}, ratios, "seed " + std::to_string(seed));
  }
  ratios.print("checkmate");
  EXPECT_GT(ratios.proved, ratios.budgets / 2);
  EXPECT_FALSE(ratios.front.empty());
}

// Real pieces take CBC minutes: with PAL_TEST_ORACLES alone. Bytes while nodes run again do not
// count here, so that the optimum is one of fewer constraints: below what a plan can reach.
TEST(BoundOracle, RealPieces) {
  if (!std::getenv("PAL_TEST_ORACLES")) GTEST_SKIP() << "asked for by PAL_TEST_ORACLES";
  const std::pair<const char*, Program> pieces[] = {
      {"two bottlenecks", Pieces::bottlenecks()},
      {"VGG's start", Pieces::vgg_start()},
      {"two Transformer layers", Pieces::transformer_layers()},
      {"four attention steps", Pieces::attention_steps()}};
  for (const auto& [name, step] : pieces) {
    Ratios ratios;
    compare(split_parts(step), {.transients = false, .nodes = 20}, ratios, name);
    ratios.print(name);
    EXPECT_FALSE(ratios.bound.empty()) << name;
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace pal::test
