// The LSTM cell, after the product that makes the gates' preactivations: fused, and as the separate
// elementwise nodes that Echo analyses (its Figure 1).
#pragma once
#include "core/op.h"
#include "core/rewrite.h"
#include "core/val.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/math.h"

namespace pal {

extern const OpDef lstm_cell_grad_op, lstm_cell_op, lstm_cell_replay_grad_op;
[[gnu::weak]] extern const Backend lstm_cell_grad_cuda, lstm_cell_cuda, lstm_cell_replay_grad_cuda;
extern const Rewrite lstm_replay_rewrite;

struct LstmAttrs {
  float forget_bias = 0;  // added to the forget gate's preactivation
  int64_t t = 0;          // the time step, compared with `lengths` where they are given
  auto fields() const { return std::tuple{field("forget_bias", forget_bias), field("t", t)}; }
};

struct LstmState {
  Val h, c;  // (B, H) each
};

// gates (B, 4H): preactivations of i, f, g, o side by side (PyTorch's order); c_prev (B, H).
//   c = sigmoid(f + forget_bias) c_prev + sigmoid(i) tanh(g),  h = sigmoid(o) tanh(c)
LstmState lstm_cell(Val gates, Val c_prev, float forget_bias = 0);
// The same for step t of sequences of `lengths` i32 (B): a row whose sequence has ended,
// t >= length, keeps prev, so that the last state is that of its last token.
LstmState lstm_cell(Val gates, LstmState prev, Val lengths, int64_t t, float forget_bias = 0);

// lstm_cell in elementary nodes: four slices, three sigmoid, two tanh, three products, a sum, and
// with `lengths` a hold of h and of c. A forget bias belongs in the gates' bias here.
LstmState lstm_cell_unfused(Val gates, Val c_prev);
LstmState lstm_cell_unfused(Val gates, LstmState prev, Val lengths, int64_t t);

// One element of the cell, and of its gradient, which computes the activations again.
struct LstmCell {
  float forget_bias;
  struct Out {
    float h, c;
  };
  PAL_HD Out operator()(float i, float f, float g, float o, float c_prev) const {
    const float c = sigmoid(f + forget_bias) * c_prev + sigmoid(i) * tanh(g);
    return {sigmoid(o) * tanh(c), c};
  }
};
struct LstmCellGrad {
  float forget_bias;
  struct Out {
    float i, f, g, o, c_prev;
  };
  PAL_HD Out operator()(float i, float f, float g, float o, float c_prev, float dh,
                        float dc) const {
    const float si = sigmoid(i), sf = sigmoid(f + forget_bias), tg = tanh(g), so = sigmoid(o);
    const float tc = tanh(sf * c_prev + si * tg);
    const float d = dc + dh * so * (1 - tc * tc);  // of c, through both outputs
    return {d * tg * (si * (1 - si)), d * c_prev * (sf * (1 - sf)), d * si * (1 - tg * tg),
            dh * tc * (so * (1 - so)), d * sf};
  }
};

// Operands of lstm_cell_replay_grad, the gradient of lstm_cell_unfused. Of the gates either their
// preactivations (B, 4H) are there, or what became of them; c, the new state, and dc, what later
// steps gave it, may be absent; all others are (B, H).
struct LstmReplay {
  enum Operand : size_t { kCPrev, kDh, kGates, kI, kF, kG, kO, kC, kDc, kOperands };
};
// One element of it, each product in the order in which the elementary nodes make it. The first
// three gates' gradients are added to the zeros that slice_columns_grad laid down for the fourth,
// which makes -0 +0.
struct LstmReplayGrad {
  bool has_c, has_dc;
  using Out = LstmCellGrad::Out;
  PAL_HD Out operator()(float i, float f, float g, float o, float c_prev, float c_given, float dh,
                        float dc) const {
    const float c = has_c ? c_given : f * c_prev + i * g;
    const float t = tanh(c), through_h = TanhGrad{}(dh * o, t);
    const float d = has_dc ? dc + through_h : through_h;
    return {0.0f + SigmoidGrad{}(d * g, i), 0.0f + SigmoidGrad{}(d * c_prev, f),
            0.0f + TanhGrad{}(d * i, g), SigmoidGrad{}(dh * t, o), d * f};
  }
};

}  // namespace pal
