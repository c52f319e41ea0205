// Fronts on disk: read back they make the same plans; torn, of another key, or too many, they are
// made anew or removed, and nothing fails. What a budget, and the host's memory, pick.
#include "train/loop/front_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "memory/price/node_times.h"
#include "tests/memory/toy_card.h"
#include "tests/support/files.h"
#include "tests/support/random_network.h"
#include "train/loop/auto_plan.h"
#include "train/loop/front_text.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

CompileOptions on_toy(double link) { return {.profile = test::toy_card(link)}; }

// A step with several plans to choose from, and its number.
uint64_t rich_seed() {
  static const uint64_t found = []() -> uint64_t {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const Program step = test::random_network(seed, {.batch = 64});
      KernelCache kernels{Device{}};
      if (make_front(step, kernels, StateLayout(step), on_toy(1e7)).points.size() > 3) return seed;
    }
    throw std::runtime_error("no step has so many plans");
  }();
  return found;
}
Program rich_step() { return test::random_network(rich_seed(), {.batch = 64}); }

class FrontCacheTest : public testing::Test {
 protected:
  std::string kept_text(uint64_t key) { return read_file(cache_.file_of(key)); }
  void write(uint64_t key, const std::string& text) {
    std::ofstream(cache_.file_of(key), std::ios::binary) << text;
  }

  const TemporaryFolder folder_;
  const fs::path dir_ = fs::path(folder_.path()) / "fronts";
  const FrontCache cache_{dir_};
  const Program program_ = rich_step();
  const StateLayout layout_{program_};
  KernelCache kernels_{Device{}};
  const CompileOptions options_ = on_toy(1e7);
};

TEST_F(FrontCacheTest, WhatIsReadBackMakesTheSamePlans) {
  const Front front = make_front(program_, kernels_, layout_, options_, {.lossy = true});
  ASSERT_GT(front.points.size(), 2u);
  cache_.keep(7, front);
  const auto read = cache_.find(7, options_, {.lossy = true});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->plain_ms, front.plain_ms);
  EXPECT_EQ(read->floor.bytes, front.floor.bytes);
  EXPECT_EQ(read->floor.node, front.floor.node);
  EXPECT_EQ(read->alone.size(), front.alone.size());
  ASSERT_EQ(read->points.size(), front.points.size());
  for (size_t i = 0; i < front.points.size(); ++i) {
    const FrontPoint &a = front.points[i], &b = read->points[i];
    EXPECT_EQ(a.from, b.from);
    EXPECT_EQ(a.host, b.host);
    EXPECT_EQ(a.offloaded, b.offloaded);
    const PlaceEffort &kept = a.options.place_effort, &found = b.options.place_effort;
    EXPECT_EQ(kept.rounds, found.rounds);
    EXPECT_EQ(kept.nodes, found.nodes);
    EXPECT_EQ(kept.slack, found.slack);
    EXPECT_EQ(kept.bytes_a_node, found.bytes_a_node);
    const Compiled x = compile(program_, kernels_, layout_, a.options),
                   y = compile(program_, kernels_, layout_, b.options);
    EXPECT_EQ(y.plan.device().bytes, a.bytes) << a.from;
    EXPECT_EQ(x.plan.offset, y.plan.offset) << a.from;
    EXPECT_EQ(x.time->step_ms, y.time->step_ms) << a.from;
  }
}

TEST_F(FrontCacheTest, KeepsWhatAPlanIsSaidBy) {
  FrontPoint point{
      .options = options_, .from = "segments", .bytes = 5, .step_ms = 2, .bound_ms = 1};
  point.options.recompute = Recompute::reruns;
  point.options.recompute_options.reruns = {{ValueId(3), ValueId(9)}, {ValueId(4), ValueId(9)}};
  point.options.recompute_options.chosen = {{ValueId(2)}};
  point.options.swap.chosen = {{ValueId(1), ValueId(0)}};
  cache_.keep(7, {.points = {point}});
  const auto read = cache_.find(7, options_);
  ASSERT_TRUE(read);
  const FrontPoint& same = read->points.at(0);
  EXPECT_EQ(same.options.recompute, Recompute::reruns);
  EXPECT_EQ(same.options.recompute_options.reruns, point.options.recompute_options.reruns);
  EXPECT_EQ(same.options.recompute_options.chosen, point.options.recompute_options.chosen);
  EXPECT_EQ(same.options.swap.chosen, point.options.swap.chosen);
  EXPECT_EQ(same.bound_ms, 1);
}

TEST_F(FrontCacheTest, WhatIsTornOrNotOfThatKeyIsNoFront) {
  EXPECT_FALSE(cache_.find(7, options_));
  cache_.keep(7, make_front(program_, kernels_, layout_, options_));
  const std::string whole = kept_text(7);
  for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 37) {
    write(7, whole.substr(0, size));
    EXPECT_FALSE(cache_.find(7, options_)) << size;
  }
  for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 37) {
    std::string flipped = whole;
    flipped[at] = char(flipped[at] ^ 1);
    write(7, flipped);
    EXPECT_FALSE(cache_.find(7, options_)) << at;
  }
  write(8, whole);
  EXPECT_FALSE(cache_.find(8, options_));
  write(7, whole);
  EXPECT_TRUE(cache_.find(7, options_));
}

TEST_F(FrontCacheTest, TheKeyIsOfAllThatAFrontFollowsFrom) {
  const uint64_t key = front_key(program_, layout_, options_, Device{});
  EXPECT_EQ(front_key(rich_step(), layout_, on_toy(1e7), Device{}), key);
  const Program other = test::random_network(rich_seed() + 1, {.batch = 64});
  EXPECT_NE(front_key(other, StateLayout(other), options_, Device{}), key);
  EXPECT_NE(front_key(program_, layout_, on_toy(2e7), Device{}), key);
  EXPECT_NE(front_key(program_, layout_, options_, Device{.threads = 2}), key);
  EXPECT_NE(front_key(program_, layout_, options_, Device{}, {.lossy = true}), key);
  CompileOptions changed = options_;
  changed.host_budget = 1000;
  EXPECT_NE(front_key(program_, layout_, changed, Device{}), key);
  changed = options_, changed.inplace = false;
  EXPECT_NE(front_key(program_, layout_, changed, Device{}), key);
  changed = options_;
  changed.profile->times = std::make_shared<NodeTimes>(NodeTimes{.ms = {{5, 1.0}}});
  EXPECT_NE(front_key(program_, layout_, changed, Device{}), key);
}

TEST_F(FrontCacheTest, TheOldestMakeRoom) {
  const FrontCache small(dir_, 3);
  const Front front = make_front(program_, kernels_, layout_, options_);
  for (uint64_t key = 1; key <= 3; ++key) {
    small.keep(key, front);
    fs::last_write_time(small.file_of(key),
                        fs::file_time_type::clock::now() - std::chrono::hours(10 - int(key)));
  }
  EXPECT_TRUE(small.find(1, options_));  // used last by now
  small.keep(4, front);
  EXPECT_TRUE(fs::exists(small.file_of(1)));
  EXPECT_FALSE(fs::exists(small.file_of(2)));
  EXPECT_TRUE(fs::exists(small.file_of(3)));
  EXPECT_TRUE(fs::exists(small.file_of(4)));
}

TEST_F(FrontCacheTest, WhereNothingCanBeWrittenNothingFails) {
  const Front front = make_front(program_, kernels_, layout_, options_);
  for (const char* folder : {"", "/proc/no/such"}) {
    const FrontCache nowhere{fs::path(folder)};
    nowhere.keep(1, front);
    EXPECT_FALSE(nowhere.find(1, options_)) << folder;
  }
}

// A file that is whole, and of plans that are not these any more.
TEST_F(FrontCacheTest, AFrontWithOtherPlansIsMadeAnew) {
  const AutoPlanner planner(options_, {}, cache_);
  const auto made = planner.front(program_, kernels_, layout_);
  ASSERT_FALSE(made->cached);
  ASSERT_TRUE(planner.front(program_, kernels_, layout_)->cached);
  const int64_t budget = (made->front.points.front().bytes + made->front.points.back().bytes) / 2;
  const FrontLimits limits{.device = budget};
  const AutoPlan expected = planner.plan(program_, kernels_, layout_, limits);
  EXPECT_TRUE(expected.made->cached);
  Front wrong = made->front;
  for (FrontPoint& point : wrong.points) point.bytes -= 64;
  cache_.keep(front_key(program_, layout_, planner.options(), kernels_.device()), wrong);
  const AutoPlan again = planner.plan(program_, kernels_, layout_, limits);
  EXPECT_FALSE(again.made->cached);
  EXPECT_EQ(again.step.plan.device().bytes, expected.step.plan.device().bytes);
  EXPECT_TRUE(planner.plan(program_, kernels_, layout_, limits).made->cached);
}

// Whoever can write the file can write its sum.
TEST_F(FrontCacheTest, AFrontThatNamesWhatTheStepHasNotIsMadeAnew) {
  const AutoPlanner planner(options_, {}, cache_);
  const Front front = planner.front(program_, kernels_, layout_)->front;
  const FrontLimits limits{.device = (front.points.front().bytes + front.points.back().bytes) / 2};
  const AutoPlan expected = planner.plan(program_, kernels_, layout_, limits);
  const uint64_t key = front_key(program_, layout_, planner.options(), kernels_.device());
  const auto with = [&](auto change) {
    Front wrong = front;
    for (FrontPoint& point : wrong.points) change(point.options);
    cache_.keep(key, wrong);
    const AutoPlan plan = planner.plan(program_, kernels_, layout_, limits);
    EXPECT_FALSE(plan.made->cached);
    EXPECT_EQ(plan.step.plan.offset, expected.step.plan.offset);
  };
  with([](CompileOptions& o) {
    o.recompute = Recompute::chosen, o.recompute_options.chosen = {ValueId(1'000'000'000)};
  });
  with([](CompileOptions& o) {
    o.recompute = Recompute::reruns, o.recompute_options.reruns = {{ValueId(7), ValueId(1 << 30)}};
  });
  with([](CompileOptions& o) { o.budget = 1, o.must_fit = true; });
}

TEST_F(FrontCacheTest, NumbersThatNoFrontHasAreRefused) {
  using nlohmann::json;
  const Front front = make_front(program_, kernels_, layout_, options_);
  const json whole = json::parse(pal::text_of(front));
  EXPECT_EQ(parse_front(whole.dump(), options_, {}).points.size(), front.points.size());
  const std::pair<const char*, json> changes[] = {
      {"/points/0/options/recompute", 6},
      {"/points/0/options/swap", -1},
      {"/points/0/options/vdnn", 2},
      {"/points/0/options/chosen", json::array({-1})},
      {"/points/0/options/chosen", json::array({4294967297})},
      {"/points/0/options/away", json::array({1.5})},
      {"/points/0/options/reruns", json::array({json::array({3})})},
      {"/points/0/options/place_rounds", PlaceEffort{}.rounds + 1},
      {"/points/0/options/place_rounds", -1},
      {"/points/0/options/place_nodes", 1'000'000'000},
      {"/points/0/options/heavy", -1},
      {"/points/0/options/budget", 1e300},
      {"/points/0/options/dpr", 0},  // not asked for
      {"/points/0/from", "a\x1b[31m"},
      {"/points/0/bytes", -64},
      {"/points/0/bytes", INT64_MAX},  // not in order
      {"/points/0/step_ms", "1"},
      {"/points", json::array()}};
  for (const auto& [where, what] : changes) {
    json changed = whole;
    changed[json::json_pointer(where)] = what;
    EXPECT_THROW(parse_front(changed.dump(), options_, {}), std::exception) << where << what;
  }
}

// What is asked of recomputation is nothing to a front, rounded maps or not: the same file serves.
TEST_F(FrontCacheTest, OverheadsShareAFront) {
  CompileOptions little = options_, much = options_;
  little.recompute = much.recompute = Recompute::echo;
  little.recompute_options.overhead = 0.02, much.recompute_options.overhead = 0.3;
  const FrontChoices lossy{.lossy = true};
  const auto made = AutoPlanner(little, lossy, cache_).front(program_, kernels_, layout_);
  const auto found = AutoPlanner(much, lossy, cache_).front(program_, kernels_, layout_);
  EXPECT_FALSE(made->cached);
  ASSERT_TRUE(found->cached);
  much.layouts = false;  // a front's plans pack nothing
  const Front anew = make_front(program_, kernels_, layout_, much, lossy);
  ASSERT_EQ(found->front.points.size(), anew.points.size());
  for (size_t i = 0; i < anew.points.size(); ++i) {
    const FrontPoint &a = found->front.points[i], &b = anew.points[i];
    EXPECT_EQ(a.step_ms, b.step_ms);
    const Compiled plan = compile(program_, kernels_, layout_, a.options);
    EXPECT_EQ(plan.plan.device().bytes, b.bytes) << a.from;
  }
}

// Rounded maps are taken where they are allowed, and nothing exact is as fast in so few bytes.
TEST_F(FrontCacheTest, RoundedMapsWhereTheyAreAllowedAndNeeded) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Program step = test::random_network(seed, {.batch = 64});
    const StateLayout layout(step);
    const AutoPlanner exact(on_toy(0), {}, FrontCache(fs::path()));
    const AutoPlanner rounding(on_toy(0), {.lossy = true}, FrontCache(fs::path()));
    const auto made = rounding.front(step, kernels_, layout);
    for (const FrontPoint& point : made->front.points) {
      if (!point.options.encode.dpr) continue;
      const FrontLimits limits{.device = point.bytes};
      const AutoPlan plan = rounding.plan(step, kernels_, layout, limits);
      ASSERT_TRUE(plan.made);
      EXPECT_TRUE(plan.point().options.encode.dpr);
      EXPECT_TRUE(plan.step.encode.is_lossy());
      EXPECT_LE(plan.step.plan.device().bytes, point.bytes);
      const AutoPlan without = exact.plan(step, kernels_, layout, limits);
      EXPECT_FALSE(without.step.encode.is_lossy());
      EXPECT_TRUE(!without.over.empty() || without.step.time->step_ms > plan.step.time->step_ms);
      return;
    }
  }
  FAIL() << "no front has rounded maps";
}

// Of another process, which is still writing it; a day later nobody is.
TEST_F(FrontCacheTest, FilesThatAreBeingWrittenStay) {
  const FrontCache one(dir_, 1);
  const Front front = make_front(program_, kernels_, layout_, options_);
  one.keep(1, front);
  const fs::path fresh = dir_ / "0000000000000005.77.tmp", old = dir_ / "0000000000000006.78.tmp";
  for (const fs::path& file : {fresh, old}) std::ofstream(file) << "half";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(30));
  one.keep(2, front);
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_FALSE(fs::exists(old));
  one.keep(3, front);
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(one.find(3, options_));
}

// What was measured counts for the queues of a step's branches too.
TEST_F(FrontCacheTest, OtherTimesAreThoseOfTheBranchDevice) {
  DeviceProfile timed = *options_.profile, card = timed;
  timed.times = std::make_shared<NodeTimes>();
  card.name = "card";
  const AutoPlanner planner(options_, {}, cache_);
  const CompileOptions with = planner.with_profile(timed, card).options();
  EXPECT_EQ(with.profile->times, timed.times);
  ASSERT_TRUE(with.branch_device);
  EXPECT_EQ(with.branch_device->name, "card");
  EXPECT_EQ(with.branch_device->times, timed.times);
  EXPECT_FALSE(planner.with_profile(timed, {}).options().branch_device);
}

TEST_F(FrontCacheTest, PicksTheFastestWithinAllLimits) {
  int with_copies = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const Program step = test::random_network(seed);
    const StateLayout layout(step);
    const AutoPlanner planner(on_toy(1e8), {}, FrontCache(fs::path()));
    const Front front = planner.front(step, kernels_, layout)->front;
    for (const FrontPoint& at : front.points) {
      for (const int64_t host : {int64_t(0), at.host - 1, at.host}) {
        const FrontLimits limits{.device = at.bytes, .host = host, .step_ms = 1.3 * front.plain_ms};
        const FrontPoint* picked = front.pick(limits);
        for (const FrontPoint& p : front.points) {
          if (p.bytes > limits.device || p.step_ms > limits.step_ms) continue;
          if (p.offloaded > 0 && p.host > host) continue;
          ASSERT_TRUE(picked);
          EXPECT_LE(picked->step_ms, p.step_ms);
        }
        if (!picked) continue;
        EXPECT_LE(picked->bytes, limits.device);
        EXPECT_TRUE(picked->offloaded == 0 || picked->host <= host);
        EXPECT_LE(picked->step_ms, limits.step_ms);
      }
      with_copies += at.offloaded > 0;
    }
  }
  EXPECT_GT(with_copies, 0);
}

}  // namespace
}  // namespace pal
