// cuDNN's convolutions beyond what operators' examples reach: 16-bit operands, graphs, and what is
// left to others.
#include "core/cuda/cudnn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>

#include "core/cuda/device.h"
#include "ops/kernels/element_types.h"
#include "ops/libraries/cudnn_convolution.h"
#include "ops/libraries/cudnn_graph.h"
#include "ops/libraries/cudnn_shape.h"
#include "tests/emulation/cudnn_image.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/pinned.h"

namespace pal::test {
namespace {

// Rows of an odd number of elements, those of a 16-bit convolution with an f32 bias or gradient.
constexpr CudnnBoundaries kOddGrad{.a = 2, .b = 2, .out = 4};
CudnnBoundaries odd_rows(DType type) {
  const int64_t element = bits(type) / 8;
  return {.a = element, .b = element, .out = element, .bias = 4};
}

using Made = std::unique_ptr<CudnnConvolution>;
Made weight_grad_of(const Device& device, const ConvShape& shape, DType type,
                    const CudnnBoundaries& on, int64_t most = kPlenty) {
  return cudnn_convolution_graph(device, {.kind = ConvKind::weight_grad,
                                          .shape = shape,
                                          .type = type,
                                          .result = DType::f32,
                                          .boundaries = on,
                                          .most_workspace = most});
}
Made forward_of(const Device& device, const ConvShape& shape, DType type, bool relu,
                const CudnnBoundaries& on, int64_t most = kPlenty, std::string* why_not = nullptr) {
  return cudnn_convolution_graph(device,
                                 {.kind = ConvKind::forward,
                                  .shape = shape,
                                  .type = type,
                                  .result = type,
                                  .relu = relu,
                                  .boundaries = on,
                                  .most_workspace = most},
                                 why_not);
}
class CudnnTest : public testing::Test {
 protected:
  void TearDown() override { emulation::settings() = {}; }
  Device device_ = cuda_device();
};

template <class T> std::vector<T> numbers(int64_t n, int seed) {
  std::vector<T> out;
  for (int64_t i = 0; i < n; ++i) {
    out.push_back(from_float<T>(float((i * 7919 + seed * 104729) % 17 - 8) / 4));
  }
  return out;
}

// The convolution and its gradients, each through an object of its own.
template <class T> struct Pass {
  const Device& device;
  DType type;
  std::vector<T> x = numbers<T>(2 * 5 * 5 * 3, 1), w = numbers<T>(4 * 27, 2),
                 dy = numbers<T>(2 * 3 * 3 * 4, 3);

  std::vector<T> run(ConvKind kind, const std::vector<T>& a, const std::vector<T>& b, size_t n,
                     const std::vector<T>* sum = nullptr) const {
    const auto convolution = cudnn_convolution(device, kind, kImage, type, kPlenty);
    const Pinned<T> in(a), by(b), out(sum ? *sum : std::vector<T>(n));
    const Pinned<std::byte> workspace(size_t(convolution->workspace()));
    auto* stream = static_cast<cudaStream_t>(device.accelerator->stream(kComputeQueue));
    convolution->run(stream,
                     {.a = in.data(), .b = by.data(), .out = out.data(), .add = sum != nullptr},
                     workspace.data());
    device.accelerator->synchronize();
    return out.copy();
  }
  std::vector<T> forward() const { return run(ConvKind::forward, x, w, dy.size()); }
  std::vector<T> data_grad() const { return run(ConvKind::data_grad, dy, w, x.size()); }
  std::vector<T> weight_grad(const std::vector<T>* sum = nullptr) const {
    return run(ConvKind::weight_grad, x, dy, w.size(), sum);
  }
};

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * double(b[i]);
  return sum;
}

TEST_F(CudnnTest, GradientsAreOfTheConvolution) {
  const Pass<float> pass{device_, DType::f32};
  const double want = dot(pass.forward(), pass.dy);  // exact, as all numbers here
  EXPECT_GT(std::fabs(want), 10);
  EXPECT_EQ(dot(pass.data_grad(), pass.x), want);
  EXPECT_EQ(dot(pass.weight_grad(), pass.w), want);
}

// The operands have few bits, so only the results are rounded.
template <class T> void expect_rounded(const std::vector<T>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].bits, from_float<T>(want[i]).bits);
}
template <class T> void expect_as_f32(const Device& device, DType type) {
  const Pass<T> pass{device, type};
  const Pass<float> exact{device, DType::f32};
  expect_rounded(pass.forward(), exact.forward());
  expect_rounded(pass.data_grad(), exact.data_grad());
  expect_rounded(pass.weight_grad(), exact.weight_grad());
}

TEST_F(CudnnTest, SixteenBitsAreSummedInF32) {
  expect_as_f32<bf16>(device_, DType::bf16);
  expect_as_f32<f16>(device_, DType::f16);
}

// By the graph API: operands in 16 bits, the result f32 and rounded nowhere.
template <class T> void expect_f32_weight_grad(const Device& device, DType type) {
  const Pass<T> pass{device, type};
  const Pass<float> exact{device, DType::f32};
  const auto convolution = weight_grad_of(device, kImage, type, kOddGrad);
  ASSERT_TRUE(convolution);
  EXPECT_LE(convolution->workspace(), kPlenty);
  const Pinned<T> x(pass.x), dy(pass.dy);
  const Pinned<float> dw(std::vector<float>(pass.w.size(), NAN));
  const Pinned<std::byte> workspace(size_t(convolution->workspace()));
  auto* stream = static_cast<cudaStream_t>(device.accelerator->stream(kComputeQueue));
  for (int again = 0; again < 2; ++again) {
    convolution->run(stream, {x.data(), dy.data(), dw.data()}, workspace.data());
  }
  device.accelerator->synchronize();
  EXPECT_EQ(dw.copy(), exact.weight_grad());
  EXPECT_THROW(convolution->run(stream, {x.data(), dy.data(), dw.data(), true}, workspace.data()),
               DeviceError);
}
TEST_F(CudnnTest, WeightGradientsOfSixteenBitsAreF32) {
  expect_f32_weight_grad<bf16>(device_, DType::bf16);
  expect_f32_weight_grad<f16>(device_, DType::f16);
}

TEST_F(CudnnTest, WeightGradientsAreLeftToOthersWithoutAnEngine) {
  auto taken = [&](const ConvShape& shape, DType type, int64_t most = kPlenty) {
    return weight_grad_of(device_, shape, type, kOddGrad, most) != nullptr;
  };
  EXPECT_TRUE(taken(kImage, DType::bf16));
  EXPECT_FALSE(taken(kImage, DType::f32)) << "the other API's";
  EXPECT_FALSE(taken(kImage, DType::bf16, 100)) << "bytes of workspace";
  device_.cudnn = false;
  EXPECT_FALSE(taken(kImage, DType::bf16));
  device_.cudnn = true;
  emulation::settings().cudnn = false;
  EXPECT_FALSE(taken(kImage, DType::bf16));
}

// A tensor that begins elsewhere than was said is refused when it is used.
TEST_F(CudnnTest, WeightGradientsKeepTheirBoundaries) {
  if (emulation::real()) GTEST_SKIP() << "what the library does with it is its own affair";
  const auto convolution = weight_grad_of(device_, kImage, DType::bf16, {});
  ASSERT_TRUE(convolution);
  const Pinned<bf16> x(std::vector<bf16>(160)), dy(std::vector<bf16>(160));
  const Pinned<float> dw(std::vector<float>(108));
  const Pinned<std::byte> workspace(size_t(convolution->workspace()));
  auto* stream = static_cast<cudaStream_t>(device_.accelerator->stream(kComputeQueue));
  EXPECT_THROW(convolution->run(stream, {x.data() + 1, dy.data(), dw.data()}, workspace.data()),
               DeviceError);
}

// What it leaves of n elements, run twice.
template <class T>
std::vector<T> results_of(const Device& device, const CudnnConvolution& convolution,
                          CudnnOperands operands, size_t n) {
  const Pinned<T> out(std::vector<T>(n, from_float<T>(NAN)));
  const Pinned<std::byte> workspace(size_t(convolution.workspace()));
  operands.out = out.data();
  for (int again = 0; again < 2; ++again) {
    convolution.run(static_cast<cudaStream_t>(device.accelerator->stream(kComputeQueue)), operands,
                    workspace.data());
  }
  device.accelerator->synchronize();
  return out.copy();
}

// The bias and relu, in f32 before the one rounding; by the graph API.
template <class T> void expect_epilogues(const Device& device, DType type) {
  const Pass<T> pass{device, type};
  const std::vector<float> sums = Pass<float>{device, DType::f32}.forward();
  const std::vector<float> biases = {0.3f, -1.7f, 0.01f, 2.6f};
  for (const bool bias : {false, true}) {
    for (const bool relu : {false, true}) {
      ConvShape shape = kImage;
      shape.bias = bias;
      const auto convolution = forward_of(device, shape, type, relu, odd_rows(type));
      ASSERT_TRUE(convolution);
      EXPECT_EQ(convolution->does_relu(), relu);
      EXPECT_LE(convolution->workspace(), kPlenty);
      const Pinned<T> x(pass.x), w(pass.w);
      const Pinned<float> row(biases);
      CudnnOperands operands{.a = x.data(), .b = w.data(), .out = nullptr};
      if (bias) operands.bias = row.data();
      const std::vector<T> got = results_of<T>(device, *convolution, operands, sums.size());
      for (size_t i = 0; i < sums.size(); ++i) {
        float want = sums[i];
        if (bias) want += biases[i % biases.size()];
        if (relu && want < 0) want = 0;
        EXPECT_EQ(to_float(got[i]), to_float(from_float<T>(want))) << i << " " << bias << relu;
      }
      operands.add = true;
      EXPECT_THROW(results_of<T>(device, *convolution, operands, sums.size()), DeviceError);
    }
  }
}
TEST_F(CudnnTest, EpiloguesAreInF32) {
  ConvShape biased = kImage;
  biased.bias = true;
  EXPECT_FALSE(forward_of(device_, biased, DType::f32, false, {})) << "exact";
  expect_epilogues<bf16>(device_, DType::bf16);
  expect_epilogues<f16>(device_, DType::f16);
  device_.tf32 = true;
  expect_epilogues<float>(device_, DType::f32);
}
// 2 is no boundary of a number in f32: a card's library takes no such tensor.
TEST_F(CudnnTest, BoundariesAreOfWholeElements) {
  ConvShape biased = kImage;
  biased.bias = true;
  EXPECT_FALSE(weight_grad_of(device_, kImage, DType::bf16, {.out = 2}));
  EXPECT_FALSE(forward_of(device_, biased, DType::bf16, false, {.bias = 2}));
  EXPECT_TRUE(forward_of(device_, biased, DType::bf16, false, {.bias = 4}));
}

TEST_F(CudnnTest, EpiloguesAreLeftToOthersWithoutAnEngine) {
  ConvShape biased = kImage;
  biased.bias = true;
  auto taken = [&](int64_t most = kPlenty) {
    return forward_of(device_, biased, DType::bf16, true, odd_rows(DType::bf16), most) != nullptr;
  };
  EXPECT_TRUE(taken());
  EXPECT_FALSE(taken(100)) << "bytes of workspace";
  device_.cudnn = false;
  EXPECT_FALSE(taken());
  device_.cudnn = true;
  emulation::settings().fusions = false;
  EXPECT_FALSE(taken());
  EXPECT_TRUE(weight_grad_of(device_, kImage, DType::bf16, kOddGrad)) << "of one operation";
  emulation::settings() = {.cudnn = false};
  EXPECT_FALSE(taken());
}

// Another engine, or one with other settings, may add in another order.
TEST_F(CudnnTest, ReluIsDoneByTheEngineThatIsChosenWithout) {
  ConvShape biased = kImage;
  biased.bias = true;
  for (const bool same : {true, false}) {
    emulation::settings().same_engines = same;
    const auto c = forward_of(device_, biased, DType::bf16, true, odd_rows(DType::bf16));
    ASSERT_TRUE(c);
    EXPECT_EQ(c->does_relu(), same);
  }
}

// Of one operation, in the result's own type.
template <class T> void expect_gradients(const Device& device, DType type) {
  const Pass<T> pass{device, type};
  const Pass<float> exact{device, DType::f32};
  const std::vector<float> want[] = {exact.data_grad(), exact.weight_grad()};
  for (const ConvKind kind : {ConvKind::data_grad, ConvKind::weight_grad}) {
    const bool data = kind == ConvKind::data_grad;
    const auto graph = cudnn_convolution_graph(device, {.kind = kind,
                                                        .shape = kImage,
                                                        .type = type,
                                                        .result = type,
                                                        .boundaries = odd_rows(type),
                                                        .most_workspace = kPlenty});
    ASSERT_TRUE(graph);
    const Pinned<T> a(data ? pass.dy : pass.x), b(data ? pass.w : pass.dy);
    const std::vector<float>& sums = want[!data];
    const std::vector<T> got =
        results_of<T>(device, *graph, {a.data(), b.data(), nullptr}, sums.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      EXPECT_EQ(to_float(got[i]), to_float(from_float<T>(sums[i]))) << i << " " << data;
    }
  }
}
TEST_F(CudnnTest, GradientsHaveGraphsToo) {
  expect_gradients<bf16>(device_, DType::bf16);
  expect_gradients<f16>(device_, DType::f16);
  device_.tf32 = true;
  expect_gradients<float>(device_, DType::f32);
}

// What is done without says so.
TEST_F(CudnnTest, AGraphThatIsRefusedSaysWhy) {
  ConvShape biased = kImage;
  biased.bias = true;
  const auto why = [&](const CudnnBoundaries& on, int64_t most = kPlenty) {
    std::string text;
    forward_of(device_, biased, DType::bf16, true, on, most, &text);
    return text;
  };
  EXPECT_EQ(why(odd_rows(DType::bf16)), "");
  EXPECT_EQ(why({.a = 2, .b = 2, .out = 2, .bias = 2}),
            "descriptor 17, as a whole: CUDNN_STATUS_BAD_PARAM (2000)");
  if (emulation::real()) return;
  EXPECT_EQ(why(odd_rows(DType::bf16), 100),
            "8 engines are offered, 2 of which give other bits or are not described, 2 of which "
            "have no plan, 4 of which want more workspace");
  emulation::settings().same_engines = false;
  EXPECT_NE(why(odd_rows(DType::bf16)).find("are others than are wanted"), std::string::npos);
}

TEST_F(CudnnTest, AddsToWhatIsThere) {
  const Pass<float> pass{device_, DType::f32};
  const std::vector<float> sum = numbers<float>(4 * 27, 5);
  std::vector<float> want = pass.weight_grad();
  for (size_t i = 0; i < want.size(); ++i) want[i] += sum[i];
  EXPECT_EQ(pass.weight_grad(&sum), want);
}

TEST_F(CudnnTest, LeavesToOthersWhatItDoesNotTake) {
  auto taken = [&](const ConvShape& shape, int64_t most = kPlenty) {
    return cudnn_convolution(device_, ConvKind::forward, shape, DType::f32, most) != nullptr;
  };
  EXPECT_TRUE(taken(kImage));
  EXPECT_FALSE(taken(kImage, 100));  // bytes of workspace
  ConvShape uneven = kImage;
  uneven.axis[0].in = 6, uneven.axis[0].before = 0;
  EXPECT_FALSE(taken(uneven));
  device_.cudnn = false;
  EXPECT_FALSE(taken(kImage));
  device_.cudnn = true;
  emulation::settings().cudnn = false;
  EXPECT_FALSE(taken(kImage));
  EXPECT_EQ(cudnn_version(), "");
}

TEST_F(CudnnTest, SaysWhichCallFailed) {
  EXPECT_EQ(cudnn_version(), "9.19.0");
  EXPECT_EQ(cudnn_version_text(100000), "10.0.0");
  EXPECT_TRUE(is_refusal(CUDNN_STATUS_NOT_SUPPORTED));
  EXPECT_FALSE(is_refusal(CUDNN_STATUS_EXECUTION_FAILED));
  EXPECT_FALSE(is_refusal(CUDNN_STATUS_SUCCESS));
  try {
    check_cudnn(CUDNN_STATUS_BAD_PARAM);
    ADD_FAILURE() << "no error";
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("cudnn_test.cc:"), 0u) << text;
    EXPECT_NE(text.find(": cuDNN: CUDNN_STATUS_BAD_PARAM (2000)"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace pal::test
