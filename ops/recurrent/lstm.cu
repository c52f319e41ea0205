// The LSTM cell and its gradients: eight columns of a row a thread, with the CPU's functors.
#include "ops/elementwise/activations.h"
#include "ops/kernels/operands.h"
#include "ops/recurrent/cuda_cells.h"
#include "ops/recurrent/lstm.h"

namespace pal {
namespace {

struct LstmTensors {
  Stored h, c;  // out
  Stored gates, c_prev, h_prev;
  const int32_t* lengths;
  int64_t rows, width;
};
__global__ void lstm_cell_kernel(LstmTensors a, LstmAttrs attrs) {
  const Place p = place_of(a.rows, a.width);
  if (p.n == 0) return;
  float h[kGroup], c[kGroup];
  load8(a.c_prev, p.at, p.n, c);
  if (a.lengths && attrs.t >= a.lengths[p.row]) {
    load8(a.h_prev, p.at, p.n, h);
  } else {
    const LstmCell cell{attrs.forget_bias};
    float x[4][kGroup];
    load_gates(a.gates, p, a.width, x);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      const LstmCell::Out y = cell(x[0][k], x[1][k], x[2][k], x[3][k], c[k]);
      c[k] = y.c, h[k] = y.h;
    }
  }
  if (a.c.data) store8(a.c, p.at, p.n, c);
  if (a.h.data) store8(a.h, p.at, p.n, h);
}
void run_lstm(const KernelArgs& a) {
  const TensorSpec& spec = a.in_spec[1];
  const int64_t rows = spec.shape[0], width = spec.shape[1];
  const LstmTensors tensors{.h = stored(a.out[0], spec, width),
                            .c = stored(a.out[1], spec, width),
                            .gates = stored(a.in[0], spec, width),
                            .c_prev = stored(a.in[1], spec, width),
                            .h_prev = stored(input_if_present(a, 2), spec, width),
                            .lengths = input_if_present<int32_t>(a, 3),
                            .rows = rows,
                            .width = width};
  launch(lstm_cell_kernel, grid_of_cells(rows, width), kCellThreads, 0, stream_of(a), tensors,
         a.attrs.as<LstmAttrs>());
}

struct LstmGradTensors {
  Stored dgates, dc_prev, dh_prev;  // out
  Stored gates, c_prev, dh, dc, sum;
  const int32_t* lengths;
  int64_t rows, width;
};
__global__ void lstm_cell_grad_kernel(LstmGradTensors a, LstmAttrs attrs) {
  const Place p = place_of(a.rows, a.width);
  if (p.n == 0) return;
  float x[4][kGroup], dh[kGroup], dc[kGroup], sum[kGroup];
  load_or_zero(a.dh, p, dh);
  load_or_zero(a.dc, p, dc);
  load_or_zero(a.sum, p, sum);
  if (a.lengths && attrs.t >= a.lengths[p.row]) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      sum[k] = sum[k] + dh[k];
      x[0][k] = x[1][k] = x[2][k] = x[3][k] = 0;
    }
  } else {
    const LstmCellGrad cell{attrs.forget_bias};
    float c_prev[kGroup];
    load_gates(a.gates, p, a.width, x);
    load8(a.c_prev, p.at, p.n, c_prev);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      const LstmCellGrad::Out y = cell(x[0][k], x[1][k], x[2][k], x[3][k], c_prev[k], dh[k], dc[k]);
      x[0][k] = y.i, x[1][k] = y.f, x[2][k] = y.g, x[3][k] = y.o;
      dc[k] = y.c_prev;
    }
  }
  if (a.dgates.data) store_gates(a.dgates, p, a.width, x);
  if (a.dc_prev.data) store8(a.dc_prev, p.at, p.n, dc);
  if (a.dh_prev.data) store8(a.dh_prev, p.at, p.n, sum);
}
void run_lstm_grad(const KernelArgs& a) {
  const TensorSpec& spec = a.in_spec[1];
  const int64_t rows = spec.shape[0], width = spec.shape[1];
  const int32_t* lengths = input_if_present<int32_t>(a, 4);
  const LstmGradTensors tensors{.dgates = stored(a.out[0], spec, width),
                                .dc_prev = stored(a.out[1], spec, width),
                                .dh_prev = stored(lengths ? a.out[2] : nullptr, spec, width),
                                .gates = stored(a.in[0], spec, width),
                                .c_prev = stored(a.in[1], spec, width),
                                .dh = stored(input_if_present(a, 2), spec, width),
                                .dc = stored(input_if_present(a, 3), spec, width),
                                .sum = stored(input_if_present(a, 5), spec, width),
                                .lengths = lengths,
                                .rows = rows,
                                .width = width};
  launch(lstm_cell_grad_kernel, grid_of_cells(rows, width), kCellThreads, 0, stream_of(a), tensors,
         a.attrs.as<LstmAttrs>());
}

// The gradient of the cell in elementary nodes: each product in the order in which they make it.
// Operands as ops/recurrent/lstm_replay.cc has them: of the gates either their preactivations, or
// what became of them; `c` absent: computed again; `dc` absent: none.
struct LstmReplay {
  enum : size_t { kCPrev, kDh, kGates, kI, kC = kI + 4, kDc };
};

struct LstmReplayTensors {
  Stored dgates, dc_prev;  // out
  Stored gates, activations[4];
  Stored c_prev, dh, c, dc;
  int64_t rows, width;
};
__global__ void lstm_cell_replay_grad_kernel(LstmReplayTensors a) {
  const Place p = place_of(a.rows, a.width);
  if (p.n == 0) return;
  const bool has_gates = a.gates.data;
  float x[4][kGroup], c_prev[kGroup], dh[kGroup], c[kGroup], dc[kGroup];
  if (has_gates) {
    load_gates(a.gates, p, a.width, x);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k) load8(a.activations[k], p.at, p.n, x[k]);
  }
  load8(a.c_prev, p.at, p.n, c_prev);
  load8(a.dh, p.at, p.n, dh);
  load_or_zero(a.c, p, c);
  load_or_zero(a.dc, p, dc);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const float i = has_gates ? sigmoid(x[0][k]) : x[0][k];
    const float f = has_gates ? sigmoid(x[1][k]) : x[1][k];
    const float g = has_gates ? tanh(x[2][k]) : x[2][k];
    const float o = has_gates ? sigmoid(x[3][k]) : x[3][k];
    const float cell = a.c.data ? c[k] : f * c_prev[k] + i * g;
    const float t = Tanh{}(cell), through_h = TanhGrad{}(dh[k] * o, t);
    const float d = a.dc.data ? dc[k] + through_h : through_h;
    // The zeros are those that slice_columns_grad laid down for the last gate: they make -0 +0.
    x[0][k] = 0.0f + SigmoidGrad{}(d * g, i);
    x[1][k] = 0.0f + SigmoidGrad{}(d * c_prev[k], f);
    x[2][k] = 0.0f + TanhGrad{}(d * i, g);
    x[3][k] = SigmoidGrad{}(dh[k] * t, o);
    dc[k] = d * f;
  }
  if (a.dgates.data) store_gates(a.dgates, p, a.width, x);
  if (a.dc_prev.data) store8(a.dc_prev, p.at, p.n, dc);
}
void run_lstm_replay_grad(const KernelArgs& a) {
  const TensorSpec& spec = a.in_spec[LstmReplay::kCPrev];
  const int64_t rows = spec.shape[0], width = spec.shape[1];
  auto operand = [&](size_t k) { return stored(input_if_present(a, k), spec, width); };
  const LstmReplayTensors tensors{
      .dgates = stored(a.out[0], spec, width),
      .dc_prev = stored(a.out[1], spec, width),
      .gates = operand(LstmReplay::kGates),
      .activations = {operand(LstmReplay::kI), operand(LstmReplay::kI + 1),
                      operand(LstmReplay::kI + 2), operand(LstmReplay::kI + 3)},
      .c_prev = operand(LstmReplay::kCPrev),
      .dh = operand(LstmReplay::kDh),
      .c = operand(LstmReplay::kC),
      .dc = operand(LstmReplay::kDc),
      .rows = rows,
      .width = width};
  launch(lstm_cell_replay_grad_kernel, grid_of_cells(rows, width), kCellThreads, 0, stream_of(a),
         tensors);
}

}  // namespace

const Backend lstm_cell_cuda{.run = run_lstm};
const Backend lstm_cell_grad_cuda{.run = run_lstm_grad};
const Backend lstm_cell_replay_grad_cuda{.run = run_lstm_replay_grad};

}  // namespace pal
