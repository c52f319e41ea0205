// What the operators of recurrent layers and their gradients are told, which operand is what, and
// how large what lies between them is.
#pragma once
#include "core/op.h"
#include "ops/kernels/operands.h"

namespace pal {

enum class RecurrentCell : uint8_t { gru, lstm };

struct RecurrentAttrs {
  bool backwards = false;  // from the last step to the first
  auto fields() const { return std::tuple{field("backwards", backwards)}; }
};
struct RecurrentGradAttrs {
  bool backwards = false;
  DType dwx = DType::f32, dwh = DType::f32;  // the types that these gradients are wanted in
  auto fields() const {
    return std::tuple{field("backwards", backwards), field("dwx", dwx), field("dwh", dwh)};
  }
};

constexpr size_t biases_of(RecurrentCell cell) { return cell == RecurrentCell::gru ? 2 : 1; }

// Operands of a layer: x, wx, wh, bias, a GRU's bias_h, lengths. Its gradient has y and dy before
// the lengths, and the reserve behind them; without one it runs the layer once more, from x.
struct RecurrentOperands {
  enum First : size_t { kX, kWx, kWh, kBias, kBiasH };
  size_t lengths, y = 0, dy = 0, reserve = 0, count;

  static constexpr RecurrentOperands of_layer(RecurrentCell cell) {
    const size_t next = kBias + biases_of(cell);
    return {.lengths = next, .count = next + 1};
  }
  static constexpr RecurrentOperands of_gradient(RecurrentCell cell) {
    const size_t next = kBias + biases_of(cell);
    return {.lengths = next + 2, .y = next, .dy = next + 1, .reserve = next + 3, .count = next + 4};
  }
};
// The gradient's results; the last is a GRU's.
struct RecurrentGradients {
  enum Output : size_t { kDx, kDwx, kDwh, kDbias, kDbiasH };
};

// Extents of a layer, as both operators' operands say.
struct RecurrentShape {
  RecurrentCell cell;
  int64_t T, B, I, H;
  DType type;  // of x, the weights and the states
  bool backwards, has_lengths;

  bool is_lstm() const { return cell == RecurrentCell::lstm; }
  int64_t gates() const { return is_lstm() ? 4 : 3; }
  int64_t state_bytes() const { return B * H * bits(type) / 8; }  // of one step
  int64_t gates_bytes() const { return gates() * state_bytes(); }
  int64_t input_bytes() const { return B * I * bits(type) / 8; }
};
inline RecurrentShape recurrent_shape(RecurrentCell cell, SpecSpan in, bool backwards,
                                      const RecurrentOperands& at) {
  const Shape& x = in[at.kX].shape;
  return {.cell = cell,
          .T = x[0],
          .B = x[1],
          .I = x[2],
          .H = in[at.kWh].shape[0],
          .type = in[at.kX].dtype,
          .backwards = backwards,
          .has_lengths = present(in, at.lengths)};
}

// The reserve, what a layer keeps for its gradient: bytes, laid out as whatever computes the layer
// wants them. So many fit what is known of cuDNN (6 H numbers a step and row, of which the kernels
// here use 4 H of a GRU, 5 H of an LSTM), and what it may put before them.
constexpr int64_t kRecurrentReserve = 6, kRecurrentReserveHead = 4096;

inline TensorSpec recurrent_reserve_spec(const RecurrentShape& s) {
  return {{kRecurrentReserve * s.T * s.state_bytes() + kRecurrentReserveHead}, DType::u8};
}

}  // namespace pal
