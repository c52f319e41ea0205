// That the emulated cuDNN checks what its recurrent layer is given, as the real one's manual asks.
#include <gtest/gtest.h>

#include <stdexcept>

#include "core/cuda/cudnn.h"
#include "core/cuda/device.h"
#include "ops/libraries/cudnn_gru.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/pinned.h"

namespace pal::test {
namespace {

// The three calls of a layer of ones.
struct RawLayer {
  Device device = cuda_device();
  std::unique_ptr<CudnnGru> gru = cudnn_gru(device, {2, 3, 4, 5, DType::f32});
  Pinned<float> x{24, 1}, y{30, 0}, dy{30, 1}, dx{24, 0};
  Pinned<std::byte> memory, weights, reserve;
  std::byte* workspace;

  RawLayer()
      : memory(size_t(gru->workspace()) + 256),
        weights(size_t(gru->weights())),
        reserve(size_t(gru->reserve())),
        workspace(memory.data()) {}
  Queue queue() const { return {.stream = device.accelerator->stream(kComputeQueue)}; }
  void forward() const {
    gru->forward(queue(), x.data(), weights.data(), y.data(), reserve.data(), workspace);
    device.accelerator->synchronize();
  }
  void data_grad() const {
    gru->data_grad(queue(), y.data(), dy.data(), weights.data(), dx.data(), reserve.data(),
                   workspace);
    device.accelerator->synchronize();
  }
  void weight_grad() const {
    gru->weight_grad(queue(), x.data(), y.data(), weights.data(), reserve.data(), workspace);
    device.accelerator->synchronize();
  }
};

TEST(EmulatedRnn, CallsComeInOrder) {
  const RawLayer layer;
  EXPECT_THROW(layer.data_grad(), std::runtime_error);
  layer.forward();
  EXPECT_THROW(layer.weight_grad(), std::runtime_error);
  layer.data_grad();
  EXPECT_THROW(layer.data_grad(), std::runtime_error) << "it changes the reserve";
  layer.weight_grad();
}

TEST(EmulatedRnn, ReserveIsOfTheSameCall) {
  const RawLayer layer;
  layer.forward();
  layer.reserve[layer.reserve.copy().size() - 1] ^= std::byte{1};
  EXPECT_THROW(layer.data_grad(), std::runtime_error) << "its last byte";
  layer.forward();
  *static_cast<float*>(layer.gru->parts(layer.weights.data()).bias[4].at) = 2;
  EXPECT_THROW(layer.data_grad(), std::runtime_error) << "other weights";
  layer.forward();
  layer.data_grad();
  layer.x[3] = 7;
  EXPECT_THROW(layer.weight_grad(), std::runtime_error) << "other inputs";
}

TEST(EmulatedRnn, RefusesWhatTheManualDoes) {
  cudnnRNNDescriptor_t layer;
  cudnnDropoutDescriptor_t dropout;
  cudnnCreateRNNDescriptor(&layer), cudnnCreateDropoutDescriptor(&dropout);
  auto set = [&](cudnnRNNAlgo_t algorithm, int hidden, cudnnMathType_t math) {
    return cudnnSetRNNDescriptor_v8(layer, algorithm, CUDNN_GRU, CUDNN_RNN_DOUBLE_BIAS,
                                    CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT,
                                    CUDNN_DATA_FLOAT, math, 4, hidden, hidden, 1, dropout,
                                    CUDNN_RNN_PADDED_IO_ENABLED);
  };
  EXPECT_EQ(set(CUDNN_RNN_ALGO_STANDARD, 5, CUDNN_FMA_MATH), CUDNN_STATUS_BAD_PARAM)
      << "a dropout that is not set";
  cudnnSetDropoutDescriptor(dropout, nullptr, 0, nullptr, 0, 0);
  EXPECT_EQ(set(CUDNN_RNN_ALGO_STANDARD, 5, CUDNN_FMA_MATH), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(CUDNN_RNN_ALGO_STANDARD, 0, CUDNN_FMA_MATH), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_RNN_ALGO_STANDARD, 5, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION),
            CUDNN_STATUS_NOT_SUPPORTED)
      << "f32 that is rounded to 16 bits";
  EXPECT_THROW(set(CUDNN_RNN_ALGO_PERSIST_DYNAMIC, 5, CUDNN_FMA_MATH), std::runtime_error);
  cudnnRNNDataDescriptor_t data;
  cudnnCreateRNNDataDescriptor(&data);
  const int lengths[] = {2, 3};
  EXPECT_EQ(
      cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 2,
                                2, 4, lengths, nullptr),
      CUDNN_STATUS_BAD_PARAM)
      << "a row longer than the layer";
  cudnnDestroyRNNDataDescriptor(data), cudnnDestroyDropoutDescriptor(dropout);
  cudnnDestroyRNNDescriptor(layer);
}

}  // namespace
}  // namespace pal::test
