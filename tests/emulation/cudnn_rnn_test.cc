// That the emulated cuDNN checks what its recurrent layer is given, as the real one's manual asks.
#include "ops/libraries/cudnn_rnn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "core/cuda/cudnn.h"
#include "core/cuda/device.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/pinned.h"

namespace pal::test {
namespace {

// The three calls of a layer of ones.
struct RawLayer {
  Device device = cuda_device();
  std::unique_ptr<CudnnRnn> rnn;
  Pinned<float> x{24, 1}, y{30, 0}, dy{30, 1}, dx{24, 0};
  Pinned<std::byte> memory, weights, reserve;
  std::byte* workspace;

  explicit RawLayer(bool lstm)
      : rnn(cudnn_rnn(device, {lstm, 2, 3, 4, 5, DType::f32})),
        memory(size_t(rnn->workspace()) + 256),
        weights(size_t(rnn->weights())),
        reserve(size_t(rnn->reserve())),
        workspace(memory.data()) {}
  Queue queue() const { return {.stream = device.accelerator->stream(kComputeQueue)}; }
  void forward() const {
    rnn->forward(queue(), x.data(), weights.data(), y.data(), reserve.data(), workspace);
    device.accelerator->synchronize();
  }
  void data_grad() const {
    rnn->data_grad(queue(), y.data(), dy.data(), weights.data(), dx.data(), reserve.data(),
                   workspace);
    device.accelerator->synchronize();
  }
  void weight_grad() const {
    rnn->weight_grad(queue(), x.data(), y.data(), weights.data(), reserve.data(), workspace);
    device.accelerator->synchronize();
  }
};

class EmulatedRnn : public testing::TestWithParam<bool> {};

TEST_P(EmulatedRnn, CallsComeInOrder) {
  const RawLayer layer(GetParam());
  EXPECT_THROW(layer.data_grad(), std::runtime_error);
  layer.forward();
  EXPECT_THROW(layer.weight_grad(), std::runtime_error);
  layer.data_grad();
  EXPECT_THROW(layer.data_grad(), std::runtime_error) << "it changes the reserve";
  layer.weight_grad();
}

TEST_P(EmulatedRnn, ReserveIsOfTheSameCall) {
  const RawLayer layer(GetParam());
  layer.forward();
  layer.reserve[layer.reserve.copy().size() - 1] ^= std::byte{1};
  EXPECT_THROW(layer.data_grad(), std::runtime_error) << "its last byte";
  layer.forward();
  *static_cast<float*>(layer.rnn->parts(layer.weights.data()).bias[4].at) = 2;
  EXPECT_THROW(layer.data_grad(), std::runtime_error) << "other weights";
  layer.forward();
  layer.data_grad();
  layer.x[3] = 7;
  EXPECT_THROW(layer.weight_grad(), std::runtime_error) << "other inputs";
}

TEST_P(EmulatedRnn, RefusesWhatTheManualDoes) {
  const cudnnRNNMode_t mode = GetParam() ? CUDNN_LSTM : CUDNN_GRU;
  cudnnRNNDescriptor_t layer;
  cudnnDropoutDescriptor_t dropout;
  cudnnCreateRNNDescriptor(&layer), cudnnCreateDropoutDescriptor(&dropout);
  auto set = [&](cudnnRNNAlgo_t algorithm, int hidden, cudnnMathType_t math) {
    return cudnnSetRNNDescriptor_v8(layer, algorithm, mode, CUDNN_RNN_DOUBLE_BIAS,
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

// The manual names an LSTM's gates as ours lie: i, f, g, o. Ones as inputs and biases that let one
// gate alone be open tell which is which.
TEST(EmulatedLstm, GatesLieInTheManualsOrder) {
  const RawLayer layer(true);
  const CudnnRnnParts parts = layer.rnn->parts(layer.weights.data());
  auto set = [&](size_t gate, float bias) {
    for (int j = 0; j < 5; ++j) static_cast<float*>(parts.bias[gate].at)[j] = bias;
  };
  for (size_t gate = 0; gate < 4; ++gate) set(gate, 100);
  layer.forward();
  EXPECT_NEAR(layer.y[0], std::tanh(1.0), 1e-6);
  EXPECT_NEAR(layer.y[15], std::tanh(2.0), 1e-6) << "nothing is forgotten";
  set(1, -100);
  layer.forward();
  EXPECT_NEAR(layer.y[15], std::tanh(1.0), 1e-6) << "all is forgotten";
  set(0, -100);
  layer.forward();
  EXPECT_NEAR(layer.y[0], 0, 1e-6) << "nothing comes in";
  set(0, 100), set(3, -100);
  layer.forward();
  EXPECT_NEAR(layer.y[0], 0, 1e-6) << "nothing goes out";
}

INSTANTIATE_TEST_SUITE_P(Cells, EmulatedRnn, testing::Bool(),
                         [](const auto& param) { return param.param ? "Lstm" : "Gru"; });

}  // namespace
}  // namespace pal::test
