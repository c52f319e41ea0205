// cudnn_convolution beyond what operators' examples reach: 16-bit operands, what it leaves to
// others; and that the emulated library refuses what the real one does.
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

constexpr int64_t kPlenty = 1 << 20;

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
// y (2, 3, 3, 4) = x (2, 5, 5, 3) by w (4, 3, 3, 3), two pixels apart, zeros around.
const ConvShape kImage{.axes = 2,
                       .axis = {ConvAxis{5, 3, 3, 2, 1, 1}, ConvAxis{5, 3, 3, 2, 1, 1}},
                       .n = 2,
                       .c = 3,
                       .o = 4};

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
      const Pinned<T> x(pass.x), w(pass.w), y(std::vector<T>(sums.size(), from_float<T>(NAN)));
      const Pinned<float> row(biases);
      const Pinned<std::byte> workspace(size_t(convolution->workspace()));
      auto* stream = static_cast<cudaStream_t>(device.accelerator->stream(kComputeQueue));
      CudnnOperands operands{.a = x.data(), .b = w.data(), .out = y.data()};
      if (bias) operands.bias = row.data();
      for (int again = 0; again < 2; ++again) {
        convolution->run(stream, operands, workspace.data());
      }
      device.accelerator->synchronize();
      const std::vector<T> got = y.copy();
      for (size_t i = 0; i < sums.size(); ++i) {
        float want = sums[i];
        if (bias) want += biases[i % biases.size()];
        if (relu && want < 0) want = 0;
        EXPECT_EQ(to_float(got[i]), to_float(from_float<T>(want))) << i << " " << bias << relu;
      }
      operands.add = true;
      EXPECT_THROW(convolution->run(stream, operands, workspace.data()), DeviceError);
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
    const Pinned<T> out(std::vector<T>(sums.size(), from_float<T>(NAN)));
    const Pinned<std::byte> workspace(size_t(graph->workspace()));
    graph->run(static_cast<cudaStream_t>(device.accelerator->stream(kComputeQueue)),
               {a.data(), b.data(), out.data()}, workspace.data());
    device.accelerator->synchronize();
    const std::vector<T> got = out.copy();
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
  EXPECT_NE(why(odd_rows(DType::bf16)).find("are others than without relu"), std::string::npos);
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

// The emulated library itself.
struct Descriptors {
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t windows;
  const CudnnShape shape = *cudnn_shape(kImage);

  Descriptors() {
    cudnnCreateTensorDescriptor(&x), cudnnCreateTensorDescriptor(&y);
    cudnnCreateFilterDescriptor(&w), cudnnCreateConvolutionDescriptor(&windows);
    cudnnSetTensorNdDescriptor(x, CUDNN_DATA_FLOAT, 4, shape.x.data(), shape.x_stride.data());
    cudnnSetTensorNdDescriptor(y, CUDNN_DATA_FLOAT, 4, shape.y.data(), shape.y_stride.data());
    cudnnSetFilterNdDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 4, shape.w.data());
    set_windows(CUDNN_DATA_FLOAT);
  }
  ~Descriptors() {
    cudnnDestroyTensorDescriptor(x), cudnnDestroyTensorDescriptor(y);
    cudnnDestroyFilterDescriptor(w), cudnnDestroyConvolutionDescriptor(windows);
  }
  void set_windows(cudnnDataType_t sums) {
    cudnnSetConvolutionNdDescriptor(windows, 2, shape.pad.data(), shape.stride.data(),
                                    shape.dilation.data(), CUDNN_CROSS_CORRELATION, sums);
  }
  cudnnStatus_t ask(size_t* bytes) const {
    return cudnnGetConvolutionForwardWorkspaceSize(
        nullptr, x, w, windows, y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, bytes);
  }
};

TEST(EmulatedCudnn, RefusesWhatTheManualDoes) {
  Descriptors d;
  size_t bytes = 0;
  EXPECT_EQ(d.ask(&bytes), CUDNN_STATUS_SUCCESS);
  CudnnShape::Extents other = d.shape.y;
  ++other[2];
  cudnnSetTensorNdDescriptor(d.y, CUDNN_DATA_FLOAT, 4, other.data(), d.shape.y_stride.data());
  EXPECT_EQ(d.ask(&bytes), CUDNN_STATUS_BAD_PARAM);  // windows that there are not
  cudnnSetTensorNdDescriptor(d.y, CUDNN_DATA_HALF, 4, d.shape.y.data(), d.shape.y_stride.data());
  EXPECT_EQ(d.ask(&bytes), CUDNN_STATUS_BAD_PARAM);  // mixed types
  cudnnSetTensorNdDescriptor(d.y, CUDNN_DATA_FLOAT, 4, d.shape.y.data(), d.shape.x_stride.data());
  EXPECT_EQ(d.ask(&bytes), CUDNN_STATUS_NOT_SUPPORTED);  // another layout
  cudnnSetTensorNdDescriptor(d.y, CUDNN_DATA_FLOAT, 4, d.shape.y.data(), d.shape.y_stride.data());
  d.set_windows(CUDNN_DATA_HALF);
  EXPECT_EQ(d.ask(&bytes), CUDNN_STATUS_NOT_SUPPORTED);  // sums in 16 bits
  d.set_windows(CUDNN_DATA_FLOAT);
  cudnnSetConvolutionGroupCount(d.windows, 2);
  EXPECT_EQ(d.ask(&bytes), CUDNN_STATUS_BAD_PARAM);  // channels that do not divide
}

TEST(EmulatedCudnn, WantsItsWorkspaceAndDeterminism) {
  Descriptors d;
  size_t bytes = 0;
  ASSERT_EQ(d.ask(&bytes), CUDNN_STATUS_SUCCESS);
  const float one = 1, zero = 0;
  Pinned<float> x(150), w(108), y(72), workspace(bytes / 4 + 1);
  const auto run = [&](size_t given) {
    return cudnnConvolutionForward(nullptr, &one, d.x, x.data(), d.w, w.data(), d.windows,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                   workspace.data(), given, &zero, d.y, y.data());
  };
  EXPECT_EQ(run(bytes - 1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_THROW(cudnnGetConvolutionBackwardDataWorkspaceSize(
                   nullptr, d.w, d.y, d.windows, d.x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, &bytes),
               std::runtime_error);
  for (auto algorithm :
       {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3}) {
    EXPECT_THROW(cudnnGetConvolutionBackwardFilterWorkspaceSize(nullptr, d.x, d.y, d.windows, d.w,
                                                                algorithm, &bytes),
                 std::runtime_error);
  }
}

// A convolution, the sum of its result and a row, and relu; changed in one place.
enum class Change {
  none,
  strides,      // y's extents are not the windows'
  half_inside,  // handed on in 16 bits
  in_memory,    // what is handed on is
  no_memory,    // the result is not
  row,          // of another number of channels
  no_row,
  sum_as_relu,  // with a second operand
  half_math,
  other_value,  // relu reads what the convolution wrote
  backwards,    // relu before the sum
  same_number,
  beta,
};
bool is_taken(cudnnHandle_t handle, Change change) {
  CudnnGraph g(handle);
  const cudnnDataType_t f32 = CUDNN_DATA_FLOAT, half = CUDNN_DATA_HALF;
  const std::vector<int64_t> extents{2, 4, 3, change == Change::strides ? 4 : 3};
  const bool handed_on = change != Change::in_memory;
  const cudnnDataType_t inside = change == Change::half_inside ? half : f32;
  const auto& x = g.tensor({1, half, {2, 3, 5, 5}, 2});
  const auto& w = g.tensor({change == Change::same_number ? 1 : 2, half, {4, 3, 3, 3}, 2});
  const auto& row = g.tensor({3, f32, {1, change == Change::row ? 3 : 4, 1, 1}, 4});
  const auto& sums = g.tensor({4, inside, extents, 4, handed_on});
  const auto& biased = g.tensor({5, f32, extents, 4, true});
  const auto& y = g.tensor({6, half, extents, 2, change == Change::no_memory});
  const auto& windows = g.windows(*cudnn_shape(kImage));
  auto formula = [&](cudnnPointwiseMode_t mode) -> const GraphObject& {
    return g.part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, [&](GraphObject& o) {
      o.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode})
          .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
               std::vector{change == Change::half_math ? half : f32});
    });
  };
  const auto& add =
      formula(change == Change::sum_as_relu ? CUDNN_POINTWISE_RELU_FWD : CUDNN_POINTWISE_ADD);
  const auto& relu = formula(CUDNN_POINTWISE_RELU_FWD);
  g.operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, [&](GraphObject& o) {
    o.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, sums)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, windows)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, std::vector{1.0f})
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT,
             std::vector{change == Change::beta ? 1.0f : 0.0f});
  });
  auto pointwise = [&](const GraphObject& by, const GraphObject& from, const GraphObject& to,
                       bool second) {
    g.operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, [&](GraphObject& o) {
      o.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, by)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
      if (second) o.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, row);
    });
  };
  if (change == Change::backwards) {
    pointwise(relu, sums, biased, false), pointwise(add, biased, y, true);
  } else {
    pointwise(add, sums, biased, change != Change::no_row);
    pointwise(relu, change == Change::other_value ? sums : biased, y, false);
  }
  return g.choose(kPlenty);
}

TEST_F(CudnnTest, GraphsAreRefusedAsTheManualDoes) {
  if (emulation::real()) GTEST_SKIP() << "the library refuses what it does";
  const cudnnHandle_t handle = cudnn_of(device_);
  EXPECT_TRUE(is_taken(handle, Change::none));
  for (int change = 1; change <= int(Change::beta); ++change) {
    EXPECT_FALSE(is_taken(handle, Change(change))) << change;
  }
}

}  // namespace
}  // namespace pal::test
