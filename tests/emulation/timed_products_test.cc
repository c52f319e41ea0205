// Which algorithm a product takes: the fastest when it is timed, and from then on that one.
#include <cuda_runtime.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "core/accelerator.h"
#include "core/builder.h"
#include "memory/run/program_set.h"
#include "ops/elementwise/activations.h"
#include "ops/libraries/fastest_call.h"
#include "ops/products/matmul.h"
#include "tests/emulation/fixture.h"
#include "tests/emulation/remembered.h"
#include "tests/support/variable.h"
#include "tests/train/loop/whole_runs.h"
#include "train/run_files/algorithm_file.h"

namespace pal::test {
namespace {

class TimedProducts : public OnGpu {
 protected:
  void prepare() override {
    if (emulation::real()) GTEST_SKIP() << "a real library's algorithms are not known";
    emulation::varied_sums = true;
  }
  void TearDown() override {
    emulation::varied_sums = false;
    OnGpu::TearDown();
  }
  // A product, and its bits: algorithms add in orders of their own.
  std::vector<float> product(bool timed = true, bool relued = false) {
    Builder b;
    const Val x = b.input("x", {{7, 200}}), w = b.input("w", {{200, 5}});
    const Val y = linear(x, w, b.input("bias", {{5}}));
    b.output("y", relued ? relu(y) : y);
    Device device = cuda_device();
    if (timed) device.algorithms = choices_;
    ProgramSet set({.fuse_epilogues = relued}, device);
    Executable& step = set.add("step", b.take());
    for (const char* name : {"x", "w", "bias"}) {
      auto* to = reinterpret_cast<float*>(step.input(name));
      for (int64_t i = 0; i < step.input_spec(name).shape.numel(); ++i) {
        to[i] = std::sin(1.7f * float(i));
      }
    }
    step.run();
    const float* y_bytes = step.output("y");
    return {y_bytes, y_bytes + 35};
  }
  // By the library's n-th algorithm.
  std::vector<float> product_of(int64_t algorithm) {
    const auto kept = choices_;
    choices_ = std::make_shared<Remembered>();
    emulation::settings().blas_ms = {5000, 5000, 5000};
    emulation::settings().blas_ms[size_t(algorithm)] = 1;
    auto out = product();
    choices_ = kept;
    return out;
  }

  std::shared_ptr<Remembered> choices_ = std::make_shared<Remembered>();
};

TEST_F(TimedProducts, TheFastestIsTakenAndHolds) {
  const std::vector<std::vector<float>> by{product_of(0), product_of(1), product_of(2)};
  ASSERT_NE(by[0], by[1]);
  ASSERT_NE(by[1], by[2]);
  ASSERT_NE(by[0], by[2]);
  emulation::settings().blas_ms = {3000, 50, 2000};
  const int64_t before = emulation::graphs_run();
  EXPECT_EQ(product(), by[1]);
  EXPECT_GT(emulation::graphs_run(), before) << "what the host takes to queue calls counts not";
  ASSERT_EQ(choices_->choices.size(), 1u);
  emulation::settings().blas_ms = {50, 3000, 2000};
  EXPECT_EQ(product(), by[1]) << "it was chosen before";
  EXPECT_EQ(product(false), by[0]) << "without choices the library's guess";
  EXPECT_EQ(choices_->choices.size(), 1u);
}

TEST_F(TimedProducts, NothingIsTimedAgain) {
  emulation::settings().blas_ms = {1000, 10};
  KernelCache first([&] {
    Device device = cuda_device();
    device.algorithms = choices_;
    return device;
  }());
  const Specs in{{{8, 32}}, {{32, 16}}, {}, {}};
  const auto prepare = [&](KernelCache& cache) {
    cache.get(matmul_op, in, infer_specs(matmul_op, in, MatmulAttrs{}), MatmulAttrs{});
  };
  prepare(first);
  EXPECT_EQ(choices_->choices.size(), 1u);
  const int64_t waits = emulation::waits_made();
  KernelCache second(first.device());
  prepare(second);
  EXPECT_EQ(emulation::waits_made(), waits);
}

TEST_F(TimedProducts, OneThatIsAboutAsFastIsNotPreferred) {
  const auto guess = product_of(0);
  emulation::settings().blas_ms = {4000, 3950};
  EXPECT_EQ(product(), guess);
}

TEST_F(TimedProducts, RefusedOnesAreLeftOut) {
  const auto third = product_of(2);
  emulation::settings().blas_ms = {-1, 3000, 50};
  EXPECT_EQ(product(), third);
}

TEST_F(TimedProducts, AnEpilogueChangesNoChoice) {
  const auto second = product_of(1);
  emulation::settings().blas_ms = {3000, 50};
  const std::vector<float> y = product(true, true);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], std::max(second[i], 0.0f));
  EXPECT_EQ(choices_->choices.size(), 1u);
  EXPECT_EQ(product(true, false), second);
  EXPECT_EQ(choices_->choices.size(), 1u);
}

TEST_F(TimedProducts, WithoutRoomToTryTheGuessHolds) {
  Device device = cuda_device();
  device.algorithms = choices_;
  KernelCache cache(device);
  emulation::settings().blas_ms = {3000, 50};
  emulation::settings().good_allocations = 0;
  const Specs in{{{8, 32}}, {{32, 16}}, {}, {}};
  cache.get(matmul_op, in, infer_specs(matmul_op, in, MatmulAttrs{}), MatmulAttrs{});
  ASSERT_EQ(choices_->choices.size(), 1u);
  emulation::settings().good_allocations = -1;
  const std::string kept = choices_->choices.begin()->second;
  EXPECT_EQ(kept.substr(kept.size() - 16), "0000000000000000") << "the library's first";
  EXPECT_FALSE(choices_->any_measured);
}

// Beside other jobs times mean nothing.
TEST_F(TimedProducts, NothingIsTimedBesideOthers) {
  const auto guess = product_of(0);
  emulation::settings().blas_ms = {3000, 50};
  choices_->alone = false;
  EXPECT_EQ(product(), guess);
  EXPECT_EQ(choices_->choices.size(), 1u);
  EXPECT_FALSE(choices_->any_measured);
  choices_->alone = true;
  EXPECT_EQ(product(), guess) << "it holds";
}

TEST_F(TimedProducts, WhereNoneRunsNothingIsMeasured) {
  emulation::settings().blas_ms = {-1, -1};
  EXPECT_THROW(product(), DeviceError);
  EXPECT_FALSE(choices_->any_measured);
}

// A card that records nothing has its calls queued one by one.
TEST_F(TimedProducts, WithoutRecordingsToo) {
  const auto second = product_of(1);
  emulation::settings().blas_ms = {3000, 50};
  emulation::settings().good_graphs = 0;
  EXPECT_EQ(product(), second);
}

// What is no algorithm of the library's is not taken for one.
TEST_F(TimedProducts, NonsenseIsPassedOver) {
  const auto second = product_of(1);
  for (const std::string nonsense : {"", "no algorithm", "0123456789abcdef"}) {
    emulation::settings().blas_ms = {3000, 50};
    choices_ = std::make_shared<Remembered>();
    product();
    choices_->choices.begin()->second = nonsense;
    EXPECT_EQ(product(), second) << nonsense;
  }
}

// Trying what takes long must not: it is called twice and once a round, and what is far behind not
// at all after the second time.
TEST_F(TimedProducts, LongCallsAreFew) {
  const std::shared_ptr<Accelerator> gpu = cuda_device().accelerator;
  auto* stream = static_cast<cudaStream_t>(gpu->stream(kComputeQueue));
  const auto calls_of = [&](const std::vector<int64_t>& ms, size_t fastest) {
    std::vector<int> calls(ms.size());
    EXPECT_EQ(fastest_call(*gpu, ms.size(),
                           [&](size_t i) {
                             ++calls[i];
                             if (ms[i] < 0) throw DeviceError("refused");
                             emulation::enqueue(stream, [t = ms[i]] { emulation::advance(t); });
                           }),
              fastest);
    return calls;
  };
  // One more for its recording.
  EXPECT_EQ(calls_of({4000, 1610, 1600, 40000, -1}, 1), (std::vector<int>{2, 3, 3, 2, 1}));
  for (const int calls : calls_of({1, 1}, 0)) {  // as many as take 5 ms
    EXPECT_GE(calls, 2 + 2);
    EXPECT_LE(calls, 2 + 5);
  }
}

class TimedProductsRuns : public RunTest {
 protected:
  TimedProductsRuns() {
    std::ofstream(dir_ / "images.yaml")
        << "model: {type: resnet, family: cifar, depth: 8, width: 4}\n"
           "data: {synthetic: true, classes: 4, image_size: 8}\n"
           "train: {batch_size: 4, lr: 0.02, valid_every: 1000, log_every: 1}\n"
           "device: {type: cuda, cudnn: false}\n";
  }
  RunResult train(const std::string& out, const char* steps, const char* times,
                  const std::vector<std::string>& more = {}) {
    const Variable candidates("PAL_EMULATED_BLAS_MS", times);
    std::vector<std::string> words{"train", "--config", "images.yaml", "--out",
                                   out,     "--steps",  steps};
    words.insert(words.end(), more.begin(), more.end());
    return pal(words);
  }
  std::string weights(const std::string& out) const {
    return read_file(dir_ / out / "last.safetensors");
  }
};

// A run goes on by its own choices, on a machine that would choose otherwise by now.
TEST_F(TimedProductsRuns, GoOnWithTheirChoices) {
  const char *then = "400 10 300", *now = "10 400 300";
  ASSERT_EQ(train("other", "2", now).status, 0);
  fs::remove_all(dir_ / "cache");
  ASSERT_EQ(train("whole", "2", then).status, 0);
  EXPECT_TRUE(weights("whole") != weights("other")) << "algorithms have orders of their own";
  // A new run begins with what the machine has chosen.
  ASSERT_EQ(train("next", "2", now).status, 0);
  EXPECT_TRUE(weights("whole") == weights("next"));
  ASSERT_EQ(train("halves", "1", then).status, 0);
  fs::remove_all(dir_ / "cache");
  ASSERT_EQ(train("halves", "2", now, {"--resume"}).status, 0);
  EXPECT_TRUE(weights("whole") == weights("halves"));
  ASSERT_EQ(train("guessed", "2", then, {"--set", "device.timed_products=false"}).status, 0);
  EXPECT_TRUE(weights("whole") != weights("guessed"));
  EXPECT_FALSE(fs::exists(dir_ / "guessed" / "algorithms.txt"));
}

}  // namespace
}  // namespace pal::test
