// The emulated cuDNN refuses what the real one's manual does.
#include <gtest/gtest.h>

#include <stdexcept>

#include "core/cuda/cudnn.h"
#include "ops/libraries/cudnn_graph.h"
#include "ops/libraries/cudnn_shape.h"
#include "tests/emulation/cudnn_image.h"
#include "tests/emulation/pinned.h"

namespace pal::test {
namespace {

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

TEST(EmulatedCudnn, GraphsAreRefusedAsTheManualDoes) {
  const Device device = cuda_device();
  const cudnnHandle_t handle = cudnn_of(device);
  EXPECT_TRUE(is_taken(handle, Change::none));
  for (int change = 1; change <= int(Change::beta); ++change) {
    EXPECT_FALSE(is_taken(handle, Change(change))) << change;
  }
}

}  // namespace
}  // namespace pal::test
