// The GRU cell (Cho et al. 2014), after the two products that make the gates' preactivations; the
// reset gate works on the state's product, as in cuDNN and PyTorch. Fused, and as elementary nodes.
#pragma once
#include "core/op.h"
#include "core/rewrite.h"
#include "core/val.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/math.h"

namespace pal {

extern const OpDef gru_cell_grad_op, gru_cell_op, gru_cell_replay_grad_op;
extern const Rewrite gru_replay_rewrite;
[[gnu::weak]] extern const Backend gru_cell_grad_cuda, gru_cell_cuda, gru_cell_replay_grad_cuda;

struct GruAttrs {
  int64_t t = 0;  // the time step, compared with `lengths` where they are given
  auto fields() const { return std::tuple{field("t", t)}; }
};

// x (B, 3H) of the input and y (B, 3H) of the state, each with its bias: r, z, n side by side
// (PyTorch's order); h_prev (B, H). -> (B, H). The node's other outputs are for its gradient.
//   r = sigmoid(x_r + y_r),  z = sigmoid(x_z + y_z),  n = tanh(x_n + r y_n),
//   h = n + z (h_prev - n)
Val gru_cell(Val x, Val y, Val h_prev);
// The same for step t of sequences of `lengths` i32 (B): a row whose sequence has ended,
// t >= length, keeps h_prev.
Val gru_cell(Val x, Val y, Val h_prev, Val lengths, int64_t t);

// gru_cell in elementary nodes: six slices, three sums, two sigmoid, a tanh, the rest products,
// sums and differences, and with `lengths` a hold.
Val gru_cell_unfused(Val x, Val y, Val h_prev);
Val gru_cell_unfused(Val x, Val y, Val h_prev, Val lengths, int64_t t);

// One element of the cell, and of its gradient, which computes the activations again; r and z come
// with both parts added.
struct GruCell {
  PAL_HD float operator()(float r, float z, float xn, float yn, float h) const {
    const float n = tanh(xn + sigmoid(r) * yn);
    return n + sigmoid(z) * (h - n);
  }
};
struct GruCellGrad {
  struct Out {
    float r, z, xn, yn, h;
  };  // r and z of either product
  PAL_HD Out operator()(float r_gate, float z_gate, float xn, float yn, float h, float dh) const {
    const float r = sigmoid(r_gate), z = sigmoid(z_gate), n = tanh(xn + r * yn);
    const float dn = dh * (1 - z) * (1 - n * n);
    return {dn * yn * (r * (1 - r)), dh * (h - n) * (z * (1 - z)), dn, dn * r, dh * z};
  }
};

// Operands of gru_cell_replay_grad, the gradient of gru_cell_unfused. Either both products'
// preactivations x, y (B, 3H) are there, or what became of them and y's last third; sum, the
// gradient of h' so far, may be absent; all others are (B, H).
struct GruReplay {
  enum Operand : size_t { kHPrev, kDh, kX, kY, kR, kZ, kN, kYn, kSum, kOperands };
};
// The same in the order of the elementary nodes, from the activations. The first two gates are
// added to the zeros that slice_columns_grad laid down for the third, which makes -0 +0.
struct GruReplayGrad {
  using Out = GruCellGrad::Out;
  PAL_HD Out operator()(float r, float z, float n, float yn, float h, float dh) const {
    const float through_h = dh * z, dn = TanhGrad{}(dh + -through_h, n);
    return {0.0f + SigmoidGrad{}(dn * yn, r), 0.0f + SigmoidGrad{}(dh * (h - n), z), dn, dn * r,
            through_h};
  }
};

}  // namespace pal
