// What gru_layer and its gradient are told, and how large what lies between them is.
#pragma once
#include "core/op.h"
#include "ops/kernels/operands.h"

namespace pal {

struct GruLayerAttrs {
  bool backwards = false;  // from the last step to the first
  auto fields() const { return std::tuple{field("backwards", backwards)}; }
};
struct GruLayerGradAttrs {
  bool backwards = false;
  DType dwx = DType::f32, dwh = DType::f32;  // the types that these gradients are wanted in
  auto fields() const {
    return std::tuple{field("backwards", backwards), field("dwx", dwx), field("dwh", dwh)};
  }
};

// Extents of a layer, as both operators' operands say.
struct GruLayerShape {
  int64_t T, B, I, H;
  DType type;  // of x, the weights and the states
  bool backwards, has_lengths;

  int64_t state_bytes() const { return B * H * bits(type) / 8; }  // of one step
  int64_t input_bytes() const { return B * I * bits(type) / 8; }
};
// x, wx and wh are operands 0, 1 and 2; `lengths`: the operand that they are.
inline GruLayerShape gru_layer_shape(SpecSpan in, bool backwards, size_t lengths) {
  const Shape& x = in[0].shape;
  return {.T = x[0],
          .B = x[1],
          .I = x[2],
          .H = in[2].shape[0],
          .type = in[0].dtype,
          .backwards = backwards,
          .has_lengths = present(in, lengths)};
}

// The reserve, what gru_layer keeps for its gradient: bytes, laid out as whatever computes the
// layer wants them. So many fit what is known of cuDNN (6 H numbers a step and row, of which the
// kernels here use 4 H), and what it may put before them.
constexpr int64_t kGruReserve = 6, kGruReserveHead = 4096;

inline TensorSpec gru_reserve_spec(const GruLayerShape& s) {
  return {{kGruReserve * s.T * s.state_bytes() + kGruReserveHead}, DType::u8};
}

// Operands of gru_layer_grad. Without the reserve it runs the layer once more, from x.
struct GruLayerGrad {
  enum Operand : size_t { kX, kWx, kWh, kBias, kBiasH, kY, kDy, kLengths, kReserve, kOperands };
  enum Output : size_t { kDx, kDwx, kDwh, kDbias, kDbiasH, kOutputs };
};

}  // namespace pal
