// cuDNN's recurrent layer as it is computed: one layer in one direction from zero, two biases, in
// f64. What the library would keep to itself is checked: a reserve is known by a sum over all of
// it, and is of one layer, one forward call and one set of weights; data gradients turn it into
// what weight gradients want, and nothing else may change it. Weights and their gradients lie
// behind gaps that only the library knows of, rows apart. GRU:  r = sigmoid(W_r x + b_r + R_r h +
// c_r), z likewise, q = R_n h + c_n,
//       n = tanh(W_n x + b_n + r q), h' = (1 - z) n + z h
// LSTM: i = sigmoid(W_i x + b_i + R_i h + c_i), f and o likewise, g = tanh(..),
//       c' = f c + i g, h' = o tanh(c')
#pragma once
#include <vector>

#include "tests/emulation/cudnn_problem.h"
#include "tests/emulation/emulation.h"

namespace pal::emulation {

using Numbers = std::vector<double>;

constexpr int64_t kGap = 24;  // elements before each part of the weights
constexpr size_t kReserveHead = 32;

struct RnnLayer {
  cudnnRNNMode_t mode;
  cudnnDataType_t type;
  cudnnMathType_t math;
  int64_t T, B, I, H;

  bool lstm() const { return mode == CUDNN_LSTM; }
  int gates() const { return lstm() ? 4 : 3; }
  int parts() const { return 2 * gates(); }  // by the inputs, then by the state
  // Numbers of a step, row and unit that are kept: r, z, n, q or i, f, g, o, c.
  int kept() const { return lstm() ? 5 : 4; }
  size_t bytes(int64_t elements) const { return size_t(elements) * element_bytes(type); }
  int64_t width(int part) const { return part < gates() ? I : H; }
  // Where a part begins: all matrices, then all biases. A bias's elements lie side by side.
  int64_t matrix_at(int part) const {
    int64_t at = kGap;
    for (int i = 0; i < part; ++i) at += H * width(i) + kGap;
    return at;
  }
  int64_t bias_at(int part) const { return matrix_at(parts()) + part * (H + kGap); }
  size_t weight_bytes() const { return bytes(bias_at(parts())); }
  size_t workspace_bytes() const { return 64 + bytes(B * H); }
  size_t reserve_bytes() const {
    return kReserveHead + bytes(settings().cudnn_reserve * T * B * H);
  }

  Numbers read(const void* p, int64_t n, bool factors = false) const {
    Numbers out(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      const float v = load_element(p, type, i);
      out[size_t(i)] = factors ? factor(v) : double(v);
    }
    return out;
  }
  void write(void* p, const Numbers& from) const {
    for (size_t i = 0; i < from.size(); ++i) store_element(p, type, int64_t(i), float(from[i]));
  }
  double factor(float v) const { return dnn_factor(type, math, v); }
};

// std::runtime_error where a reserve is not the one that the call wants. `reserve`: null, not kept.
void compute_forward(const RnnLayer& layer, const void* x, const void* weights, void* y,
                     void* reserve);
void compute_data_grad(const RnnLayer& layer, const void* y, const void* dy, const void* weights,
                       void* dx, void* reserve);
// Adds to what is in `gradients`.
void compute_weight_grad(const RnnLayer& layer, const void* x, const void* y, void* gradients,
                         void* reserve);

}  // namespace pal::emulation
