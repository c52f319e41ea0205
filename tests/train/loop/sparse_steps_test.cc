// Training with sparse maps: whatever plan runs when, and wherever maps have too little room, the
// results are the same bits; and when a step is planned anew.
#include "train/loop/sparse_steps.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "core/error.h"
#include "core/scalars.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/kernels/gate.h"
#include "ops/norms/batch_norm.h"
#include "ops/sums/reduce.h"
#include "tests/memory/bits.h"
#include "train/loop/initialise.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

constexpr int64_t kBatch = 2, kSize = 12, kChannels = 8;  // maps of 9 kB

// Convolutions, a batch norm with running statistics, dropout and a pool.
Recorded network(Builder& b, Val scalars) {
  Val y = b.input("x", {{kBatch, kSize, kSize, kChannels}});
  Recorded out;
  for (const std::string n : {"0", "1", "2"}) {
    Builder::Within scope(b, "layer" + n);
    const Val w = b.state("w" + n, {{kChannels, 3, 3, kChannels}}, Role::weight,
                          {.kind = Init::Kind::normal, .a = 0.2f});
    y = conv2d(y, w, conv2d_attrs(1, 1));
    if (n == "1") {
      const TensorSpec channels{{kChannels}};
      const BatchNorm norm = batch_norm(y, b.state("gamma", channels, Role::weight, {.a = 1}),
                                        b.state("beta", channels, Role::weight));
      y = norm.y;
      out.moved.push_back({b.state("running", channels, Role::statistic), norm.mean, 0.1f});
    }
    y = relu(y);
    if (n == "0") y = dropout(y, scalars, 0.3f);
  }
  y = max_pool(y, max_pool_attrs(2, 2)).y;
  out.loss = scale(sum_all(mul(y, y)), 1e-3f);
  return out;
}

// A set of programs, and what a trainer does with them.
struct Training {
  TrainConfig config;
  MemoryConfig memory;
  ProgramSet programs;
  SparseSteps sparse{memory, programs};
  int64_t overflows = 0, sparse_runs = 0, plans = 0;

  Training(int accumulate, double margin, int64_t observe, bool ssdc, Encodings encode = {})
      : programs({.encode = with(encode, ssdc, margin)}, cpu_device(1)) {
    config.accumulate = accumulate;
    config.ema = 0.9;
    memory.ssdc_observe = observe;
    std::vector<MicroBatch> kinds{MicroBatch::only};
    if (accumulate > 1) kinds = {MicroBatch::last, MicroBatch::first, MicroBatch::middle};
    for (const MicroBatch kind : kinds) programs.declare(recorded(kind));
    for (const MicroBatch kind : kinds) {
      if (ssdc) {
        sparse.add(to_string(kind), recorded(kind));
      } else {
        programs.add(to_string(kind), recorded(kind));
      }
    }
    initialise(programs, 3);
  }
  static Encodings with(Encodings encode, bool ssdc, double margin) {
    encode.ssdc = ssdc, encode.ssdc_margin = margin;
    return encode;
  }
  Program recorded(MicroBatch kind) const { return record_step(network, config, kind); }

  static float* put(Executable& program, int64_t step, int micro_batch, float lowest) {
    const TensorSpec spec{{kBatch, kSize, kSize, kChannels}};
    const auto x = test::made_up(std::to_string(step) + "/" + std::to_string(micro_batch), spec);
    float* at = reinterpret_cast<float*>(program.input("x"));
    for (size_t i = 0; i < x.size(); ++i) at[i] = x[i] < lowest ? 0 : x[i];
    StepScalars scalars{.learning_rate = 0.05f, .step = int32_t(step), .seed_low = 5, .tokens = 2};
    scalars.micro_batch = micro_batch;
    std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
    return at;
  }

  // One update; the loss of each micro-batch. `lowest`: inputs below are zero.
  std::vector<float> step(int64_t number, float lowest = -2) {
    std::vector<float> losses;
    const int count = int(*config.accumulate);
    for (int i = 0; i < count; ++i) {
      const MicroBatch kind = micro_batch_of(i, count);
      const std::string name = to_string(kind);
      Executable* program = programs.find(name);
      Executable* const dense = program;
      if (sparse.on()) {
        program = &sparse.choose(
            name, [&] { return recorded(kind); }, [&](Executable&) { ++plans; });
      }
      put(*program, number, i, lowest);
      program->run();
      if (program != dense) {
        ++sparse_runs;
        if (!sparse.overflows(name, *program).empty()) {
          ++overflows;
          program = dense;
          put(*program, number, i, lowest);
          program->run();
        }
      }
      if (sparse.on() && program == dense) sparse.observe(name, *dense);
      losses.push_back(*program->output("loss"));
    }
    return losses;
  }

  std::string state() {
    std::string bytes;
    for (const StateTensor& slot : programs.state()) {
      bytes.append(reinterpret_cast<const char*>(slot.data), size_t(slot.spec.bytes()));
    }
    return bytes;
  }
};

TEST(SparseSteps, WhereverRoomIsTooLittleTheBitsAreTheSame) {
  for (const int accumulate : {1, 3}) {
    for (const double margin : {1.0, 1.25}) {
      Training plain(accumulate, margin, 1, false), sparse(accumulate, margin, 1, true);
      for (int64_t step = 0; step < 40; ++step) {
        // More and more nonzeros, then fewer.
        const float lowest =
            step < 20 ? 0.9f - 0.1f * float(step) : -1.0f + 0.1f * float(step - 20);
        ASSERT_EQ(plain.step(step, lowest), sparse.step(step, lowest)) << step;
        ASSERT_TRUE(plain.state() == sparse.state()) << step << " margin " << margin;
      }
      EXPECT_GT(sparse.overflows, 1) << margin;
      EXPECT_GT(sparse.plans, 1) << margin << ": planned anew";
      EXPECT_GT(sparse.sparse_runs, 20 * accumulate);
    }
  }
}

TEST(SparseSteps, AMapThatOverflowsAgainAndAgainStaysDense) {
  Training run(1, 1, 1, true);
  // Never the same twice, and always more than before in some map.
  for (int64_t step = 0; step < 300; ++step) run.step(step, 0.9f - 0.005f * float(step));
  EXPECT_GT(run.overflows, 4);
  const int64_t until_here = run.overflows;
  for (int64_t step = 300; step < 600; ++step) run.step(step, -2);
  EXPECT_LE(run.overflows, until_here + 2 * 4 * 8) << "four of each map, at most";
  EXPECT_LT(run.plans, 40);
}

TEST(SparseSteps, RoundedFormsRoundTheSameValues) {
  Encodings fp8{.binarize = true, .dpr = Dpr::fp8};
  Training plain(2, 1.1, 1, false, fp8), sparse(2, 1.1, 1, true, fp8);
  for (int64_t step = 0; step < 30; ++step) {
    const float lowest = 0.9f - 0.06f * float(step);
    ASSERT_EQ(plain.step(step, lowest), sparse.step(step, lowest)) << step;
    ASSERT_TRUE(plain.state() == sparse.state()) << step;
  }
}

// Capacities drawn at random, far too small ones among them: any map of any micro-batch overflows.
TEST(SparseStepsProperty, RandomOverflows) {
  const char* asked = std::getenv("PAL_TEST_OVERFLOWS");
  const int64_t injections = asked ? std::atoll(asked) : 10'000;
  constexpr int kPlans = 12;
  Training plain(3, 1, 1'000'000, false), faulty(3, 1, 1'000'000, true);
  std::mt19937 random(11);
  std::uniform_real_distribution<double> part(0.1, 1.2);
  std::map<std::string, std::vector<Executable*>> plans;
  std::set<ValueId> hit;
  for (const MicroBatch kind : {MicroBatch::first, MicroBatch::middle, MicroBatch::last}) {
    const std::string name = to_string(kind);
    for (int i = 0; i < kPlans; ++i) {
      CompileOptions options = faulty.programs.options();
      for (const CountedMap& map : counted_maps(faulty.programs.find(name)->program())) {
        options.encode.density[map.origin] = part(random);
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
      const std::string name = to_string(micro_batch_of(i, 3));
      Executable* program = plans[name][random() % kPlans];
      Training::put(*program, step, i, -2);
      program->run();
      const auto maps = counted_maps(program->program());
      const bool overflowed = !maps.empty() && program->output<Gate>(kOverflowOutput)->apply == 0;
      for (const CountedMap& map : maps) {
        if (*program->output<int32_t>(map.output) > map.sparse->capacity) hit.insert(map.origin);
      }
      overflows += overflowed, with_room += !overflowed;
      if (overflowed) {
        program = faulty.programs.find(name);
        Training::put(*program, step, i, -2);
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
}  // namespace pal
