// Plans of small and random programs, and the faults that check_plan must find.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/order.h"
#include "core/verify.h"
#include "memory/place/place.h"
#include "memory/plan/report.h"
#include "memory/run/shared_plan.h"
#include "memory/storages/lifetimes.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

TEST(Plan, StateFirstThenInputsTwiceThenTheRest) {
  Builder b;
  Val x = b.input("x0", {Shape{20}}), w = b.state("w0", {Shape{5}}, Role::weight);
  Val a = reverse(x), c = reverse(a);
  b.output("y", c);
  Ready r(b.take());
  Plan plan = make_plan(r.program, r.storages, r.layout);
  auto at = [&](Val v) { return plan.offset[size_t(r.storages.of[size_t(v.id)])]; };
  EXPECT_EQ(at(w), 0);
  EXPECT_EQ(at(x), 64);
  EXPECT_EQ(plan.device().inputs, 128);
  EXPECT_EQ(plan.device().transients_begin(), 64 + 2 * 128);
  EXPECT_GE(at(a), plan.device().transients_begin());
  EXPECT_EQ(plan.device().bytes, plan.device().transients_begin() + 3 * 128) << "a, c, scratch";
  EXPECT_EQ(plan.device().lower_bound, plan.device().bytes);
}

// It says the order by which what is on the device was placed, whatever is on the host.
TEST(Plan, NamesTheOrderOfTheDevicesPlacement) {
  for (const bool copies : {false, true}) {
    Ready r(random_program(3, {.nodes = 12, .copies = copies}));
    const Transients device = transients_of(r.program, r.storages, Space::device);
    const Placement placed = place(device.buffers);
    ASSERT_STRNE(placed.order, "");
    EXPECT_STREQ(make_plan(r.program, r.storages, r.layout).order, placed.order);
  }
}

// State and inputs, and outputs that are made anew: those that live on the device.
TEST(Plan, AJobsOwnBytesAreStateInputsAndOutputs) {
  Builder b;
  Val x = b.input("x0", {Shape{20}}), w = b.state("w0", {Shape{5}}, Role::weight);
  Val a = reverse(x), c = reverse(a);
  b.output("y", c);
  b.output("w", w);
  Ready r(b.take());
  const Plan plan = make_plan(r.program, r.storages, r.layout);
  EXPECT_EQ(SharedPlan::own_bytes(r.storages, plan), plan.device().transients_begin() + 128) << "c";
  Storages away = r.storages;
  away.list[away.of[size_t(c.id)]].space = Space::host;
  EXPECT_EQ(SharedPlan::own_bytes(away, plan), plan.device().transients_begin());
}

// Each moment is in one column, which shows the highest of its moments; there are no more columns
// than moments.
TEST(Plan, ATimelineHasThePeakInAnyNumberOfColumns) {
  Ready r(random_program(7, {.nodes = 12, .states = 2}));
  const ByStorage<Lifetime> lifetimes = lifetimes_of(r.program, r.storages);
  const std::vector<Held> held = held_values(r.program, r.storages, lifetimes);
  const Peak peak = peak_of(r.storages, lifetimes);
  const size_t moments = 2 * r.program.nodes.size();
  for (const size_t columns : {size_t(1), size_t(5), moments, moments + 10}) {
    const Timeline timeline = timeline_of(r.program, r.storages, held, columns);
    EXPECT_EQ(timeline.moments, int64_t(moments));
    ASSERT_EQ(timeline.columns.size(), std::min(columns, moments));
    int64_t highest = 0;
    for (size_t c = 0; c < timeline.columns.size(); ++c) {
      const Timeline::Column& column = timeline.columns[c];
      const int64_t sum = std::accumulate(column.by_role.begin(), column.by_role.end(), int64_t(0));
      EXPECT_EQ(sum, column.bytes);
      EXPECT_GE(column.moment, int64_t(c * moments / timeline.columns.size()));
      EXPECT_LT(column.moment, int64_t((c + 1) * moments / timeline.columns.size()));
      highest = std::max(highest, column.bytes);
    }
    EXPECT_EQ(highest, peak.bytes) << columns;
  }
}

TEST(Plan, ProgramsShareAStateLayout) {
  Builder one, two;
  one.state("a", {Shape{32}}, Role::weight);
  one.state("b", {Shape{8}}, Role::weight);
  two.state("b", {Shape{8}}, Role::weight);
  StateLayout layout(one.program());
  layout.add(two.program());
  EXPECT_EQ(layout.bytes(), 128 + 64);
  Storages s = assign_storages(two.program());
  EXPECT_EQ(make_plan(two.program(), s, layout).offset[0], 128);
  Builder other;
  other.state("b", {Shape{9}}, Role::weight);
  EXPECT_THROW(layout.add(other.program()), ProgramError);
  EXPECT_THROW(make_plan(one.program(), assign_storages(one.program()), StateLayout(two.program())),
               ProgramError);
}

RandomOptions options_for(uint64_t seed) {
  return {.nodes = 10 + int(seed % 90),
          .states = int(seed % 5),
          .two_queues = seed % 3 == 1,
          .gated = seed % 4 == 2};
}

TEST(Plan, RandomProgramsRunWithTheBitsOfSeparateBuffers) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Program program = random_program(seed, options_for(seed));
    verify(program);
    Ready r(program, {.inplace = seed % 7 != 0, .windows = seed % 11 != 0});
    Plan plan = make_plan(r.program, r.storages, r.layout);
    ASSERT_NO_THROW(check_plan(r.program, r.storages, plan)) << "seed " << seed;
    ASSERT_GE(plan.device().bytes, plan.device().lower_bound) << "seed " << seed;
    ASSERT_EQ(plan.device().lower_bound,
              peak_of(r.storages, lifetimes_of(r.program, r.storages)).bytes);
    Arena arena(plan);
    StaticPlan memory(r.storages, plan, arena);
    memory.set_input_slot(int(seed % 2));
    memory.fill_canary();
    const bool poison = !options_for(seed).two_queues;
    ASSERT_EQ(run_with(r, memory, 2, {.poison = poison}), reference(program, 2)) << "seed " << seed;
    // Every toy kernel writes all of its output and workspace, so the peak is really touched.
    ASSERT_EQ(memory.recorded_peak(), plan.device().bytes) << "seed " << seed;
  }
}

TEST(Plan, SharingNeverCostsBytesOnAverageAndInPlaceNever) {
  int64_t all = 0, no_windows = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Program program = random_program(seed, {.nodes = 60});
    auto peak = [&](StorageOptions o) {
      Storages s = assign_storages(program, {}, o);
      return peak_of(s, lifetimes_of(program, s)).bytes;
    };
    const int64_t full = peak({});
    ASSERT_LE(full, peak({.inplace = false})) << "seed " << seed;
    all += full, no_windows += peak({.windows = false});
  }
  EXPECT_LT(all, no_windows);
}

// Neither is over, in program order, before the other begins.
bool touch_together(const std::vector<NodeId>& a, const std::vector<NodeId>& b) {
  return a.empty() || b.empty() || (a.front() <= b.back() && b.front() <= a.back());
}

// Moves one live storage onto another that is alive at the same time: always found.
TEST(CheckPlan, FindsPlantedOverlaps) {
  int planted = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Ready r(random_program(seed, {.nodes = 40, .two_queues = seed % 2 == 1}));
    const Plan good = make_plan(r.program, r.storages, r.layout);
    const auto life = lifetimes_of(r.program, r.storages);
    const auto touches = touches_of(r.program, r.storages);
    std::mt19937_64 random(seed);
    const size_t n = r.storages.list.size();
    for (int attempt = 0; attempt < 40; ++attempt) {
      const size_t a = random() % n, b = random() % n;
      const Storage &sa = r.storages.list[a], &sb = r.storages.list[b];
      if (a == b || sa.space != sb.space || !life[a].overlaps(life[b])) continue;
      if (sa.persistent || sa.input || sb.bytes < sa.bytes || sa.bytes == 0) continue;
      // On two queues a lifetime also covers the time until somebody waits.
      if (seed % 2 == 1 && !touch_together(touches[a], touches[b])) continue;
      Plan bad = good;
      bad.offset[a] = good.offset[b];
      ++planted;
      const std::string message = message_of([&] { check_plan(r.program, r.storages, bad); });
      ASSERT_NE(message, "") << "seed " << seed << ": "
                             << name_of(r.program, r.storages, StorageId(a)) << " onto "
                             << name_of(r.program, r.storages, StorageId(b));
    }
  }
  EXPECT_GT(planted, 100);
}

TEST(CheckPlan, NamesBothValues) {
  Builder b;
  Val x = b.input("x0", {Shape{16}});
  Builder::Within scope(b, "layer");
  Val a = reverse(x), c = reverse(x), d = plus(a, c);
  b.output("y", d);
  Ready r(b.take(), {.inplace = false});
  Plan plan = make_plan(r.program, r.storages, r.layout);
  plan.offset[size_t(r.storages.of[size_t(c.id)])] =
      plan.offset[size_t(r.storages.of[size_t(a.id)])];
  EXPECT_EQ(message_of([&] { check_plan(r.program, r.storages, plan); }),
            "check_plan: node 2 [add] reads layer reverse f32[16] (value 1), but its bytes are "
            "overwritten by layer reverse f32[16] (value 2)");
}

struct Faulty {
  Builder b;
  Val x = b.input("x0", {Shape{16}}), w = b.state("w0", {Shape{16}}, Role::weight);
  Val a = reverse(x), c = reverse(a), w1 = update(w, c);
  Ready r{[this] {
    b.output("loss", sum(x));
    return b.take();
  }()};
  Plan plan = make_plan(r.program, r.storages, r.layout);
  int64_t& offset(Val v) { return plan.offset[size_t(r.storages.of[size_t(v.id)])]; }
  std::string check() {
    return message_of([&] { check_plan(r.program, r.storages, plan); });
  }
};

TEST(CheckPlan, FindsMisalignmentAndEscapes) {
  Faulty good;
  EXPECT_EQ(good.check(), "");
  Faulty f;
  f.offset(f.a) += 4;
  EXPECT_NE(f.check().find("not aligned"), std::string::npos);
  Faulty g;
  g.offset(g.a) = g.plan.device().bytes;
  EXPECT_NE(g.check().find("leaves its region"), std::string::npos);
  Faulty h;
  h.offset(h.a) = h.offset(h.x) + 64;  // the spare slot
  EXPECT_NE(h.check().find("lies among the state and inputs"), std::string::npos);
  Faulty byte;
  byte.r.storages.list[byte.r.storages.of[size_t(byte.a.id)]].bytes = 1;
  byte.offset(byte.a) = byte.offset(byte.x) + 64;
  EXPECT_NE(byte.check().find("lies among the state and inputs"), std::string::npos);
  Faulty i;
  i.offset(i.w) = i.offset(i.x);
  EXPECT_NE(i.check().find("overlaps"), std::string::npos);
}

TEST(CheckPlan, FindsAWorkspaceOverAnOperand) {
  Faulty f;
  const StorageId scratch = f.r.storages.workspace[1];
  f.plan.offset[size_t(scratch)] = f.offset(f.a);
  EXPECT_NE(f.check().find("over its own operand"), std::string::npos) << f.check();
  Faulty g;
  g.plan.offset[size_t(g.r.storages.workspace[1])] = g.offset(g.c);
  EXPECT_NE(g.check(), "") << "scratch over the output";
}

TEST(CheckPlan, FindsAnOutputOverAnOperandThatItMayNotShare) {
  Faulty f;
  f.offset(f.c) = f.offset(f.a);  // reverse cannot work in place
  EXPECT_NE(f.check().find("over its own operand"), std::string::npos) << f.check();
}

// n reads what `on` writes (views write nothing), or writes what it reads.
bool shares_bytes(const Program& program, const Storages& storages, NodeId on, NodeId n) {
  auto meet = [](const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
    return std::any_of(a.begin(), a.end(), [&](ValueId v) {
      return v != kNone && std::find(b.begin(), b.end(), v) != b.end();
    });
  };
  const Node &first = program.node(on), &second = program.node(n);
  const auto writers = writers_of(program, storages);
  const bool writes = std::any_of(first.out.begin(), first.out.end(), [&](ValueId v) {
    auto& list = writers[size_t(storages.of[size_t(v)])];
    return std::find(list.begin(), list.end(), on) != list.end();
  });
  return (writes && meet(first.out, second.in)) ||
         (second.op->writes_state && second.in[0] != kNone && meet(first.in, {second.in[0]}));
}

TEST(CheckPlan, FindsMissingWaits) {
  int planted = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Program program = random_program(seed, {.nodes = 40, .two_queues = true});
    const Storages storages = assign_storages(program);
    for (NodeId n = 0; n < program.node_count(); ++n) {
      for (size_t k = 0; k < program.node(n).waits.size(); ++k) {
        Program broken = program;
        auto& waits = broken.node(n).waits;
        const NodeId on = waits[k];
        waits.erase(waits.begin() + long(k));
        if (Order(broken).before(on, n) || !shares_bytes(program, storages, on, n)) {
          continue;
        }
        ++planted;
        // The plan of the whole program, and the program that has lost a wait.
        const Plan plan = make_plan(program, storages, StateLayout(program));
        ASSERT_NE(message_of([&] { check_plan(broken, storages, plan); }), "")
            << "seed " << seed << " node " << n;
      }
    }
  }
  EXPECT_GT(planted, 50);
}

TEST(StaticPlan, InputSlotsAreApartAndTheArenaGrowsAroundTheState) {
  Faulty f;
  Arena arena(f.plan);
  StaticPlan memory(f.r.storages, f.plan, arena);
  const StorageId x = f.r.storages.of[size_t(f.x.id)], w = f.r.storages.of[size_t(f.w.id)];
  EXPECT_EQ(memory.input_address(x, 1) - memory.input_address(x, 0), f.plan.device().inputs);
  EXPECT_EQ(memory.outside_step(x), memory.input_address(x, 0));
  memory.set_input_slot(1);
  EXPECT_EQ(memory.acquire(x, 0), memory.input_address(x, 1));
  *memory.outside_step(w) = std::byte{42};
  arena.reserve(Space::device, f.plan.device().bytes * 100);
  EXPECT_EQ(*memory.outside_step(w), std::byte{42});
  Arena small;
  EXPECT_THROW(StaticPlan(f.r.storages, f.plan, small), ProgramError);
}

}  // namespace
}  // namespace pal::test
