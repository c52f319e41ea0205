// Which way a convolution's weight gradient takes, an engine of cuDNN's or windows and a product:
// the fastest when they are timed, and from then on that one; without timing, by a rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/accelerator.h"
#include "core/builder.h"
#include "memory/run/program_set.h"
#include "ops/convolution/conv2d.h"
#include "ops/tensors/casts.h"
#include "tests/emulation/fixture.h"
#include "tests/emulation/remembered.h"

namespace pal::test {
namespace {

class TimedWeightGrads : public OnGpu {
 protected:
  void prepare() override {
    if (emulation::real()) GTEST_SKIP() << "a real library's engines are not known";
    emulation::varied_sums = true;
  }
  void TearDown() override {
    emulation::varied_sums = false;
    OnGpu::TearDown();
  }

  Device device(bool timed = true) const {
    Device device = cuda_device();
    if (timed) device.algorithms = choices_;
    return device;
  }
  // What each way takes: cuDNN's two engines, a product.
  static void times(int64_t first, int64_t second, int64_t windows) {
    emulation::settings().dnn_ms = {first, second}, emulation::settings().blas_ms = {windows};
  }
  // The gradient of 3 x 3 weights, over 4,096 pixels: each way adds in an order of its own.
  std::vector<float> gradient(bool timed = true) const {
    Builder b;
    const Val x = b.input("x", {{1, 64, 64, 2}}), dy = b.input("dy", {{1, 64, 64, 2}});
    Conv2dAttrs attrs = conv2d_attrs(1, 1);
    attrs.height = attrs.width = 3;
    b.output("dw", conv2d_weight_grad(cast(x, DType::bf16), cast(dy, DType::bf16), attrs));
    ProgramSet set({}, device(timed));
    Executable& step = set.add("step", b.take());
    for (const char* name : {"x", "dy"}) {
      auto* to = reinterpret_cast<float*>(step.input(name));
      for (int64_t i = 0; i < step.input_spec(name).shape.numel(); ++i) {
        to[i] = std::sin(1.7f * float(i));
      }
    }
    step.run();
    const float* dw = step.output("dw");
    return {dw, dw + 36};
  }
  // Way 0, 1 or 2.
  std::vector<float> gradient_by(size_t way) {
    const auto kept = std::exchange(choices_, std::make_shared<Remembered>());
    std::vector<int64_t> ms(3, 5000);
    ms[way] = 1;
    times(ms[0], ms[1], ms[2]);
    auto out = gradient();
    choices_ = kept;
    return out;
  }
  // Whose code one runs by, of x (1, side, side, channels).
  std::string by(int64_t side, int64_t channels, int64_t outputs, int kernel,
                 bool timed = true) const {
    const Specs in{
        {{1, side, side, channels}, DType::bf16}, {{1, side, side, outputs}, DType::bf16}, {}};
    Conv2dAttrs attrs = conv2d_attrs(1, kernel / 2);
    attrs.height = attrs.width = kernel;
    KernelCache cache(device(timed));
    return cache
        .get(conv2d_weight_grad_op, in, infer_specs(conv2d_weight_grad_op, in, attrs), attrs)
        ->prepared.by;
  }

  std::shared_ptr<Remembered> choices_ = std::make_shared<Remembered>();
};

TEST_F(TimedWeightGrads, TheFastestIsTakenAndHolds) {
  const std::vector<std::vector<float>> ways{gradient_by(0), gradient_by(1), gradient_by(2)};
  ASSERT_NE(ways[0], ways[1]);
  ASSERT_NE(ways[1], ways[2]);
  ASSERT_NE(ways[0], ways[2]);
  for (size_t i = 0; i < ways[0].size(); ++i) {
    EXPECT_NEAR(ways[0][i], ways[1][i], 1e-3);
    EXPECT_NEAR(ways[0][i], ways[2][i], 1e-3);
  }
  times(3000, 50, 2000);
  const int64_t before = emulation::graphs_run();
  EXPECT_EQ(gradient(), ways[1]);
  EXPECT_GT(emulation::graphs_run(), before) << "what the host takes to queue calls counts not";
  ASSERT_EQ(choices_->choices.size(), 1u);
  EXPECT_TRUE(choices_->any_measured);
  EXPECT_EQ(choices_->choices.begin()->second.find("cudnn:4:"), 0u);
  times(50, 3000, 2000);
  EXPECT_EQ(gradient(), ways[1]) << "it was chosen before";
  EXPECT_EQ(gradient(false), ways[0]) << "without choices the first engine";
  EXPECT_EQ(choices_->choices.size(), 1u);
}

TEST_F(TimedWeightGrads, WindowsHoldToo) {
  const auto windows = gradient_by(2);
  times(3000, 2000, 50);
  EXPECT_EQ(by(64, 2, 2, 3), "windows, cuBLASLt, timed");
  ASSERT_EQ(choices_->choices.size(), 1u);
  EXPECT_EQ(choices_->choices.begin()->second, "windows");
  times(50, 2000, 3000);
  const int64_t waits = emulation::waits_made();
  EXPECT_EQ(by(64, 2, 2, 3), "windows, cuBLASLt, as chosen before");
  EXPECT_EQ(emulation::waits_made(), waits) << "nothing is timed again";
  EXPECT_EQ(gradient(), windows);
}

// Several stripes, of an image whose windows are padded, count as one call.
TEST_F(TimedWeightGrads, WindowsAreTimedInTheirStripes) {
  emulation::settings().memory = int64_t(64) << 20;
  times(250, 1000, 100);
  EXPECT_EQ(by(64, 5, 3, 3), "cuDNN's graph, timed")
      << "4,096 windows of 48 numbers take 3 stripes";
}

TEST_F(TimedWeightGrads, RefusedOnesAreLeftOut) {
  const auto second = gradient_by(1);
  times(-1, 3000, 5000);
  EXPECT_EQ(gradient(), second);
  EXPECT_EQ(by(64, 2, 2, 3), "cuDNN's graph, as chosen before");
}

// What the library no longer has is chosen anew.
TEST_F(TimedWeightGrads, NonsenseIsPassedOver) {
  const auto second = gradient_by(1);
  for (const std::string nonsense : {"", "cudnn:99", "no engine"}) {
    times(3000, 50, 2000);
    choices_ = std::make_shared<Remembered>();
    gradient();
    choices_->choices.begin()->second = nonsense;
    EXPECT_EQ(gradient(), second) << nonsense;
  }
}

TEST_F(TimedWeightGrads, NothingIsTimedBesideOthersOrWithoutRoom) {
  const auto first = gradient_by(0);
  for (const bool alone : {true, false}) {
    choices_ = std::make_shared<Remembered>();
    choices_->alone = alone;
    times(3000, 50, 2000);
    if (alone) emulation::settings().good_allocations = 0;
    EXPECT_EQ(by(64, 2, 2, 3), "cuDNN's graph");
    emulation::settings().good_allocations = -1;
    EXPECT_FALSE(choices_->any_measured);
    ASSERT_EQ(choices_->choices.size(), 1u);
    choices_->alone = true;
    EXPECT_EQ(gradient(), first) << "it holds for the run";
  }
}

TEST_F(TimedWeightGrads, ShortSumsAreNotTimed) {
  times(3000, 50, 2000);
  EXPECT_EQ(by(32, 2, 2, 3), "cuDNN's graph");
  EXPECT_TRUE(choices_->choices.empty());
}

// An image that is its own windows is a product; so is a long sum whose result is small beside the
// card.
TEST_F(TimedWeightGrads, WithoutTimingARuleHolds) {
  times(50, 50, 3000);
  EXPECT_EQ(by(8, 16, 16, 1, false), "windows, cuBLASLt");
  EXPECT_EQ(by(64, 16, 16, 3, false), "cuDNN's graph");
  emulation::settings().multiprocessors = 132;
  EXPECT_EQ(by(64, 16, 16, 3, false), "windows, cuBLASLt");
  EXPECT_EQ(by(64, 256, 256, 3, false), "cuDNN's graph") << "36 tiles";
  EXPECT_EQ(by(32, 16, 16, 3, false), "cuDNN's graph") << "1,024 pixels";
  choices_->alone = false;
  EXPECT_EQ(by(64, 16, 16, 3), "windows, cuBLASLt") << "nor where nothing may be timed";
  ASSERT_EQ(choices_->choices.size(), 1u);
  EXPECT_EQ(choices_->choices.begin()->second, "windows");
}

}  // namespace
}  // namespace pal::test
