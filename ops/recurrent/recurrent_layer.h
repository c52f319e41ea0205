// One direction of a recurrent layer over all time steps as one operator: what gru_cell and
// lstm_cell (ops/recurrent/gru.h, lstm.h) give when a model unrolls them.
// docs/decisions/recurrent-layers.md.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef gru_layer_grad_op, gru_layer_op, lstm_layer_grad_op, lstm_layer_op;
[[gnu::weak]] extern const Backend gru_layer_cuda, gru_layer_grad_cuda, lstm_layer_cuda,
    lstm_layer_grad_cuda;

struct GruLayerOperands {
  Val x;             // (T, B, I)
  Val wx, wh;        // (I, 3H), (H, 3H): r, z, n side by side, as gru_cell has them
  Val bias, bias_h;  // f32 (3H): of the input's product, and of the state's
  Val lengths;       // i32 (B), may be absent
};
// -> (T, B, H), the state after each step. It begins at zero. A row whose sequence has ended,
// t >= length, keeps its state; backwards it is still zero there. The node's other output is for
// its gradient (recurrent_reserve_spec).
Val gru_layer(const GruLayerOperands& in, bool backwards);

struct LstmLayerOperands {
  Val x;        // (T, B, I)
  Val wx, wh;   // (I, 4H), (H, 4H): i, f, g, o side by side, as lstm_cell has them
  Val bias;     // f32 (4H)
  Val lengths;  // i32 (B), may be absent
};
// The same of LSTM cells: h after each step. c begins at zero too, and stays within.
Val lstm_layer(const LstmLayerOperands& in, bool backwards);

}  // namespace pal
