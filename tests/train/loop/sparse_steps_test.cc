// Training with sparse maps: whatever plan runs when, and wherever maps have too little room, the
// results are the same bits; and when a step is planned anew.
#include "train/loop/sparse_steps.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "memory/passes/counted_maps.h"
#include "ops/kernels/gate.h"
#include "tests/train/loop/sparse_training.h"

namespace pal::test {
namespace {

// The same training twice, with sparse maps and without; both see the same inputs.
struct Pair {
  SparseSetup with, without;
  Training plain, sparse;

  explicit Pair(const SparseSetup& setup)
      : with(setup),
        without([&] {
          SparseSetup dense = setup;
          dense.ssdc = false;
          return dense;
        }()),
        plain(setup_of(without)),
        sparse(setup_of(with)) {}
  void step(int64_t number, float lowest) {
    *with.lowest = lowest;
    ASSERT_EQ(plain.step(number), sparse.step(number)) << number;
    ASSERT_TRUE(plain.state() == sparse.state()) << number << " margin " << with.margin;
  }
};

TEST(SparseSteps, WhereverRoomIsTooLittleTheBitsAreTheSame) {
  for (const int accumulate : {1, 3}) {
    for (const double margin : {1.0, 1.25}) {
      Pair pair({.accumulate = accumulate, .margin = margin});
      for (int64_t step = 0; step < 40; ++step) {
        // More and more nonzeros, then fewer.
        pair.step(step, step < 20 ? 0.9f - 0.1f * float(step) : -1.0f + 0.1f * float(step - 20));
      }
      EXPECT_GT(pair.sparse.overflows, 1) << margin;
      EXPECT_GT(pair.sparse.plans, 1) << margin << ": planned anew";
      EXPECT_GT(pair.sparse.sparse_runs, 20 * accumulate);
    }
  }
}

TEST(SparseSteps, SayWhatTheyDid) {
  const SparseSetup setup;
  Training run(setup_of(setup));
  *setup.lowest = 0.9f;
  run.step(0);
  ASSERT_EQ(run.sparse.described().size(), 1u);
  EXPECT_EQ(run.sparse.described()[0],
            "only: no map is kept sparse; of 1 runs 0 had too little room and were repeated on the "
            "dense plan");
  *setup.lowest = 0.5f;
  for (int64_t step = 1; step < 6; ++step) run.step(step);
  const std::string line = run.sparse.described()[0];
  EXPECT_NE(line.find(" maps are kept sparse since run "), std::string::npos) << line;
  EXPECT_NE(line.find("of 6 runs " + std::to_string(run.overflows) + " had"), std::string::npos)
      << line;
  EXPECT_GT(run.overflows, 0);
}

// The plan that a run falls back on recomputes only where results stay the same.
TEST(SparseSteps, DenseOptions) {
  CompileOptions options;
  options.encode.ssdc = true, options.encode.binarize = true;
  ASSERT_EQ(dense_options(options).size(), 1u);
  EXPECT_FALSE(dense_options(options)[0].encode.ssdc);
  EXPECT_TRUE(dense_options(options)[0].encode.observe);
  EXPECT_TRUE(dense_options(options)[0].encode.binarize);
  options.budget = 1000;
  ASSERT_EQ(dense_options(options).size(), 2u);
  EXPECT_EQ(dense_options(options)[1].recompute, Recompute::echo);
  EXPECT_TRUE(dense_options(options)[1].encode.observe);
  options.encode.dpr = Dpr::fp8;
  EXPECT_EQ(dense_options(options).size(), 1u);
  options.encode.dpr = {}, options.recompute = Recompute::echo;
  EXPECT_EQ(dense_options(options).size(), 1u);
}

TEST(SparseSteps, AMapThatOverflowsAgainAndAgainStaysDense) {
  const SparseSetup setup;
  Training training(setup_of(setup));
  // Never the same twice, and always more than before in some map.
  for (int64_t step = 0; step < 300; ++step) {
    *setup.lowest = 0.9f - 0.005f * float(step);
    training.step(step);
  }
  EXPECT_GT(training.overflows, 4);
  const int64_t until_here = training.overflows;
  *setup.lowest = -2;
  for (int64_t step = 300; step < 600; ++step) training.step(step);
  EXPECT_LE(training.overflows, until_here + 2 * 4 * 8) << "four of each map, at most";
  EXPECT_LT(training.plans, 40);
}

// Of one map, with more nonzeros at every step: twice before each new plan, four times in all.
TEST(SparseSteps, AMapOverflowsFourTimesAtMost) {
  const SparseSetup setup;
  TrainingSetup one = setup_of(setup);
  one.forward = [](Builder& b, Val) {
    Val y = relu(b.input("x", {{kBatch, kSize, kSize, kChannels}}));
    y = conv2d(y, b.state("w", {{kChannels, 3, 3, kChannels}}, Role::weight, {.a = 0.1f}),
               conv2d_attrs(1, 1));
    return Recorded{.loss = scale(sum_all(y), 1e-6f)};
  };
  Training training(std::move(one));
  for (int64_t step = 0; step < 12; ++step) {
    *setup.lowest = 0.9f - 0.06f * float(step);
    training.step(step);
  }
  EXPECT_EQ(training.overflows, 4);
  EXPECT_EQ(training.sparse_runs, 4);
}

int64_t room_of(Executable& program) {
  int64_t room = 0;
  for (const CountedMap& map : counted_maps(program.program())) room += map.sparse->capacity;
  return room;
}

// Dense for a while, then nearly empty: the step is planned anew with less room, and where a run
// then needs more, it is as ever repeated. The bits are those of dense maps, also of a run that is
// killed on the way and goes on from its state alone.
TEST(SparseSteps, MapsThatBecomeSparserNeedLessRoom) {
  for (const int64_t observe : {1, 3}) {
    Pair pair({.margin = 1.25, .observe = observe});
    int64_t step = 0;
    auto until = [&](int64_t end, float lowest) {
      for (; step < end; ++step) pair.step(step, lowest);
    };
    until(4 * observe, -2.0f);
    const int64_t room = room_of(*pair.sparse.programs.find("only/sparse"));
    EXPECT_EQ(pair.sparse.plans, 1);
    until(8 * observe, 0.995f);
    EXPECT_EQ(pair.sparse.plans, 1) << "a few sparse runs are no reason";
    EXPECT_EQ(pair.sparse.overflows, 0);
    while (pair.sparse.plans == 1 && step < 20 * observe) until(step + 1, 0.995f);
    EXPECT_EQ(pair.sparse.plans, 2);
    // Made at run observe + 1, judged by the last of the 10 observe runs from there.
    EXPECT_EQ(step, 11 * observe + 1);
    EXPECT_LT(2 * room_of(*pair.sparse.programs.find("only/sparse")), room);
    const int64_t middle = step + observe;
    until(middle, 0.995f);

    Training killed(setup_of(pair.with));
    const auto from = pair.sparse.programs.state(), to = killed.programs.state();
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(from[i].name, to[i].name);
      std::memcpy(to[i].data, from[i].data, size_t(from[i].spec.bytes()));
    }
    until(middle + 12 * observe, -2.0f);
    EXPECT_GT(pair.sparse.overflows, 0);
    for (int64_t again = middle; again < step; ++again) killed.step(again);
    EXPECT_TRUE(killed.state() == pair.sparse.state());
  }
}

// Densities that go up and down for ever: a map that had too little room once is left alone.
TEST(SparseSteps, RoomDoesNotComeAndGoForEver) {
  const SparseSetup setup{.margin = 1.1};
  Training training(setup_of(setup));
  int64_t plans = 0, overflows = 0;
  for (int64_t step = 0; step < 1200; ++step) {
    *setup.lowest = step / 30 % 2 ? 0.995f : -2.0f;
    training.step(step);
    if (step == 600) plans = training.plans, overflows = training.overflows;
  }
  EXPECT_GT(overflows, 0);
  EXPECT_LE(training.plans, plans + 2);
  EXPECT_LE(training.overflows, overflows + 4);
}

// With room for three times the most, no map that is half full is worth it: nothing is counted but
// in the runs that judge the plan, which see when maps are sparse after all.
TEST(SparseSteps, AStepWithoutSparseMapsIsSeldomCounted) {
  for (const bool rounds : {false, true}) {
    SparseSetup setup{.margin = 3, .observe = 2, .encode = {.binarize = true}};
    if (rounds) setup.encode.dpr = Dpr::fp8;
    Pair pair(setup);
    int64_t step = 0;
    for (; step < 30; ++step) pair.step(step, -2.0f);
    EXPECT_EQ(pair.sparse.sparse_runs, 0);
    EXPECT_GT(pair.sparse.uncounted_runs, 20);
    const Executable* plain = pair.sparse.programs.find("only/uncounted");
    ASSERT_NE(plain, nullptr);
    EXPECT_TRUE(counted_maps(plain->program()).empty());
    for (; step < 120; ++step) pair.step(step, 0.995f);
    EXPECT_GT(pair.sparse.sparse_runs, 0);
  }
}

TEST(SparseSteps, RoundedFormsRoundTheSameValues) {
  Pair pair({.accumulate = 2, .margin = 1.1, .encode = {.binarize = true, .dpr = Dpr::fp8}});
  for (int64_t step = 0; step < 30; ++step) pair.step(step, 0.9f - 0.06f * float(step));
}

// Some maps sparse with capacities drawn at random, far too small ones among them: any map of any
// micro-batch overflows.
TEST(SparseStepsProperty, RandomOverflows) {
  const char* asked = std::getenv("PAL_TEST_OVERFLOWS");
  const int64_t injections = asked ? std::atoll(asked) : 10'000;
  constexpr int kPlans = 12;
  Pair pair({.accumulate = 3, .observe = 1'000'000});
  Training &plain = pair.plain, &faulty = pair.sparse;
  std::mt19937 random(11);
  std::uniform_real_distribution<double> part(0.1, 1.2);
  std::map<std::string, std::vector<Executable*>> plans;
  std::set<ValueId> hit;
  for (const MicroBatch kind : {MicroBatch::first, MicroBatch::middle, MicroBatch::last}) {
    const std::string name = to_string(kind);
    for (int i = 0; i < kPlans; ++i) {
      CompileOptions options = faulty.programs.options();
      for (const CountedMap& map : counted_maps(faulty.programs.find(name)->program())) {
        if (random() % 2) options.encode.density[map.origin] = part(random);
      }
      plans[name].push_back(
          &faulty.programs.add(name + std::to_string(i), faulty.recorded(kind), options));
    }
  }
  int64_t overflows = 0, with_room = 0;
  for (int64_t step = 0; overflows < injections; ++step) {
    ASSERT_LT(step, 100 + 3 * injections);
    const std::vector<float> losses = plain.step(step);
    for (int i = 0; i < 3; ++i) {
      const std::string name = to_string(i == 0   ? MicroBatch::first
                                         : i == 1 ? MicroBatch::middle
                                                  : MicroBatch::last);
      Executable* program = plans[name][random() % kPlans];
      faulty.put(*program, step, i);
      program->run();
      const auto maps = counted_maps(program->program());
      const bool overflowed = !maps.empty() && program->output<Gate>(kOverflowOutput)->apply == 0;
      for (const CountedMap& map : maps) {
        if (*program->output<int32_t>(map.output) > map.sparse->capacity) hit.insert(map.origin);
      }
      overflows += overflowed, with_room += !overflowed;
      if (overflowed) {
        program = faulty.programs.find(name);
        faulty.put(*program, step, i);
        program->run();
      }
      ASSERT_EQ(*program->output("loss"), losses[size_t(i)]) << step;
    }
    ASSERT_TRUE(plain.state() == faulty.state()) << step;
  }
  EXPECT_GT(with_room, injections / 40);
  EXPECT_GE(hit.size(), 3u);
}

}  // namespace
}  // namespace pal::test
