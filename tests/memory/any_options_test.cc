// Random programs under random options of the compiler, all at once: the bits of the program as it
// was recorded, run node by node without any pass, and in memory the bytes of the plan.
//
// PAL_TEST_PROGRAMS tells how many; PAL_TEST_FIRST begins with that one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>

#include "core/error.h"
#include "core/verify.h"
#include "memory/front/pool.h"
#include "memory/passes/parts.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/running.h"
#include "tests/memory/toy_card.h"
#include "tests/support/random_network.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

constexpr int kSteps = 2;

// As bits_of(Compiled), node by node.
Bits plain_bits(const Program& program) {
  Evaluator eval(program);
  run_steps(
      eval, kSteps,
      [&](const auto& slot) {
        eval.set(slot.start, made_up(slot.name, program.value(slot.start).spec));
      },
      [&](const auto& in, int step) {
        if (in.name == "scalars") {
          *eval.as<StepScalars>(in.value) = {.learning_rate = 0.1f, .step = step};
        } else {
          eval.set(in.value, made_up(in.name + std::to_string(step), program.value(in.value).spec));
        }
      });
  Bits out;
  for (auto& o : program.outputs) out[o.name] = eval.bytes(o.value);
  for (auto& slot : program.state) out[slot.name] = eval.bytes(slot.end);
  return out;
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed * 0x9E3779B97F4A7C15u + 1) {}

  uint64_t below(uint64_t n) { return random_() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <class T> T of(std::initializer_list<T> some) {
    return some.begin()[below(some.size())];
  }
  // A member of an enumeration that has names.
  template <class Enum> Enum member() { return Enum(below(names(Enum{}).size())); }

  Program program() {
    if (one_in(3)) {
      return random_program(
          random_(),
          {.nodes = 5 + int(below(60)), .states = 1 + int(below(5)), .gated = one_in(3)});
    }
    return random_network(random_(), {.layers = 2 + int(below(14)),
                                      .batch = int64_t(1 + below(16)),
                                      .width = int64_t(2 * (1 + below(16))),
                                      .steps = int64_t(1 + below(4))});
  }

  CompileOptions options(const Program& step) {
    CompileOptions o;
    o.must_fit = false;
    o.inplace = !one_in(8), o.windows = !one_in(8), o.layouts = !one_in(4);
    o.fuse_recompute = !one_in(4), o.fuse_epilogues = !one_in(4);
    o.fuse_updates = !one_in(4), o.late_updates = !one_in(4);
    o.schedule = one_in(8) ? Schedule::exact : of({Schedule::program, Schedule::lifetime});
    o.place_effort.nodes = of<int64_t>({0, 100, 3000});
    if (!one_in(4)) o.profile = toy_card(of({0.0, 1e7, 1e8, 1e12}));
    if (one_in(4)) o.branch_device = toy_card();
    recomputation(step, o);
    o.encode.binarize = one_in(2), o.encode.dropout_bits = one_in(2);
    if (one_in(2)) o.budget = int64_t(double(peak_bytes(step)) * (0.3 + 0.01 * double(below(100))));
    if (!o.profile || o.profile->link == 0) return o;
    if (one_in(4)) o.host_budget = int64_t(below(1 << 16));
    if (one_in(2)) o.swap = {.method = member<Swap>(), .vdnn = member<VdnnInputs>()};
    if (o.swap.method == Swap::planned && one_in(2)) o.swap.chosen = some(step, 1 + below(6));
    return o;
  }

  // A manager in place of a plan.
  void manage(CompileOptions& o) {
    o.dynamic = {.manager = of({Manager::delta, Manager::dtr}),
                 .filter = member<Filter>(),
                 .start = of({0.25, 0.75, 1.0}),
                 .prefetch = int(below(5)),
                 .release_in_backward = !one_in(3),
                 .dtr = member<DtrHeuristic>(),
                 .dealloc = member<Dealloc>()};
    o.swap = {}, o.branch_device.reset(), o.must_fit = true;
    if (!o.profile) o.profile = toy_card(1e8);
  }

 private:
  std::vector<ValueId> some(const Program& p, uint64_t one_of) {
    std::vector<ValueId> values;
    for (ValueId v : p.values.ids()) {
      if (one_in(one_of)) values.push_back(v);
    }
    return values;
  }

  void recomputation(const Program& step, CompileOptions& o) {
    o.recompute = of({Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo,
                      Recompute::echo, Recompute::chosen});
    RecomputeOptions& r = o.recompute_options;
    r.heavy = of({8.0, 32.0, std::numeric_limits<double>::infinity()});
    r.heavier = of({32.0, 128.0}), r.exchange = of({8.0, 128.0, 1e9});
    r.overhead = of({0.01, 0.09, 0.3, 10.0}), r.bits = !one_in(3);
    if (o.recompute == Recompute::chosen) r.chosen = some(split_parts(step), 1 + below(6));
  }

  std::mt19937_64 random_;
};

struct Tally {
  int compiled = 0, refused = 0, again = 0, copies = 0, queues = 0, managed = 0, of_fronts = 0;
};

// Where those end that lie highest: values, or workspaces.
int64_t end_of(const Compiled& c, bool workspaces) {
  int64_t end = 0;
  for (const StorageId s : c.storages.list.ids()) {
    const Storage& storage = c.storages[s];
    if (storage.space != Space::device || !storage.counted) continue;
    if ((storage.workspace_of != kNone) != workspaces) continue;
    end = std::max(end, c.plan.offset[s] + align_up(storage.bytes));
  }
  return end;
}

// Either with poison, or to see how far bytes are touched: as far as the plan says, and no further.
void expect_as_recorded(const Program& step, const Bits& expected, const Compiled& c, bool poison,
                        Tally& tally) {
  verify(c.program);
  check_plan(c.program, c.storages, c.plan);
  Arena arena(c.plan);
  StaticPlan memory(c.storages, c.plan, arena);
  memory.fill_canary();
  ASSERT_EQ(difference_of(step, expected, bits_in(c, memory, poison)), "");
  if (!poison) {
    ASSERT_LE(memory.recorded_peak(), c.plan.device().bytes);
    // A manager may move a workspace away before its node runs: nobody touches the place it had.
    // Nor need a kernel touch the end of its workspace, which then is the end of the plan.
    if (!c.dynamic) {
      ASSERT_GE(memory.recorded_peak(), end_of(c, false));
      ASSERT_EQ(std::max(memory.recorded_peak(), end_of(c, true)), c.plan.device().bytes);
    }
  }
  ++tally.compiled;
  tally.queues += queue_count(c.program) > 1;
  const auto has = [&](Phase phase) {
    return std::any_of(c.program.nodes.begin(), c.program.nodes.end(),
                       [&](const Node& node) { return node.phase == phase; });
  };
  tally.again += has(Phase::recompute), tally.copies += has(Phase::offload);
}

uint64_t first_asked() {
  const char* asked = std::getenv("PAL_TEST_FIRST");
  return asked ? uint64_t(std::atoll(asked)) : 0;
}

TEST(AnyOptions, HaveTheBitsOfNoPassAndThePlansBytes) {
  KernelCache cache{Device{}};
  Tally tally;
  const uint64_t first = first_asked(), programs = programs_asked(150);
  for (uint64_t seed = first; seed < first + programs; ++seed) {
    SCOPED_TRACE("PAL_TEST_FIRST=" + std::to_string(seed) + " PAL_TEST_PROGRAMS=1");
    Draw draw(seed);
    const Program step = draw.program();
    const StateLayout layout(step);
    const Bits expected = plain_bits(step);
    CompileOptions options = draw.options(step);
    const bool managed = draw.one_in(5);
    if (managed) draw.manage(options);
    std::optional<int64_t> promised;  // by a front
    if (!managed && draw.one_in(40)) {
      const Front all = make_front(step, cache, layout, options);
      ASSERT_FALSE(all.points.empty());
      const FrontPoint& point = all.points[draw.below(all.points.size())];
      options = point.options, promised = options.queue_budget = point.bytes;
      ++tally.of_fronts;
    }
    try {
      if (managed && !options.budget) {
        options.budget = peak_bytes(step, workspace_bytes(prepare_all(step, cache)));
      }
      const Compiled c = compile(step, cache, layout, options);
      const int64_t bytes = c.plan.device().bytes;
      ASSERT_LE(bytes, managed ? *options.budget : bytes);
      ASSERT_LE(bytes, promised.value_or(bytes));
      tally.managed += managed;
      expect_as_recorded(step, expected, c, draw.one_in(2), tally);
    } catch (const BudgetError& error) {
      ASSERT_TRUE(managed) << error.what();
      ++tally.refused;
    }
    if (HasFatalFailure()) return;
  }
  std::printf(
      "%d compiled (%d of fronts, %d managed), %d refused: %d run nodes again, %d copy, %d have "
      "several queues\n",
      tally.compiled, tally.of_fronts, tally.managed, tally.refused, tally.again, tally.copies,
      tally.queues);
  if (programs < 100) return;
  const int part = int(programs) / 100;
  EXPECT_GT(tally.again, 10 * part);
  EXPECT_GT(tally.copies, 3 * part);
  EXPECT_GT(tally.queues, 3 * part);
  EXPECT_GT(tally.managed, 3 * part);
  EXPECT_GT(tally.of_fronts, part / 2);
}

}  // namespace
}  // namespace pal::test
