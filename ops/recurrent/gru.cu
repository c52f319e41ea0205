// The GRU cell and its gradient: eight columns of a row a thread, with the CPU's functors.
#include "ops/kernels/operands.h"
#include "ops/recurrent/cuda_cells.h"
#include "ops/recurrent/gru.h"

namespace pal {
namespace {

struct GruTensors {
  Stored h, gates, y_n;  // out
  Stored x, y, h_prev;
  const int32_t* lengths;
  int64_t rows, width;
};
__global__ void gru_cell_kernel(GruTensors a, GruAttrs attrs) {
  const Place p = place_of(a.rows, a.width);
  if (p.n == 0) return;
  float x[3][kGroup], y[3][kGroup];
  load_gates(a.x, p, a.width, x);
  load_gates(a.y, p, a.width, y);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) x[0][k] = x[0][k] + y[0][k], x[1][k] = x[1][k] + y[1][k];
  if (a.h.data) {
    float h[kGroup];
    load8(a.h_prev, p.at, p.n, h);
    if (!a.lengths || attrs.t < a.lengths[p.row]) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        h[k] = GruCell{}(x[0][k], x[1][k], x[2][k], y[2][k], h[k]);
      }
    }
    store8(a.h, p.at, p.n, h);
  }
  if (a.gates.data) store_gates(a.gates, p, a.width, x);
  if (a.y_n.data) store8(a.y_n, p.at, p.n, y[2]);
}
void run_gru(const KernelArgs& a) {
  const TensorSpec& spec = a.in_spec[2];
  const int64_t rows = spec.shape[0], width = spec.shape[1];
  const GruTensors tensors{.h = stored(a.out[0], spec, width),
                           .gates = stored(a.out[1], spec, width),
                           .y_n = stored(a.out[2], spec, width),
                           .x = stored(a.in[0], spec, width),
                           .y = stored(a.in[1], spec, width),
                           .h_prev = stored(a.in[2], spec, width),
                           .lengths = input_if_present<int32_t>(a, 3),
                           .rows = rows,
                           .width = width};
  launch(gru_cell_kernel, grid_of_cells(rows, width), kCellThreads, 0, stream_of(a), tensors,
         a.attrs.as<GruAttrs>());
}

struct GruGradTensors {
  Stored dx, dy, dh_prev;  // out
  Stored gates, y_n, h_prev, dh, sum;
  const int32_t* lengths;
  int64_t rows, width;
};
__global__ void gru_cell_grad_kernel(GruGradTensors a, GruAttrs attrs) {
  const Place p = place_of(a.rows, a.width);
  if (p.n == 0) return;
  float x[3][kGroup], y_n[kGroup], dh[kGroup], sum[kGroup];  // x: the gates, then dx
  load8(a.dh, p.at, p.n, dh);
  load_or_zero(a.sum, p, sum);
  if (a.lengths && attrs.t >= a.lengths[p.row]) {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      sum[k] = sum[k] + dh[k];
      x[0][k] = x[1][k] = x[2][k] = y_n[k] = 0;
    }
  } else {
    float h[kGroup];
    load_gates(a.gates, p, a.width, x);
    load8(a.y_n, p.at, p.n, y_n);
    load8(a.h_prev, p.at, p.n, h);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      const GruCellGrad::Out d = GruCellGrad{}(x[0][k], x[1][k], x[2][k], y_n[k], h[k], dh[k]);
      x[0][k] = d.r, x[1][k] = d.z, x[2][k] = d.xn, y_n[k] = d.yn;
      sum[k] = sum[k] + d.h;
    }
  }
  if (a.dx.data) store_gates(a.dx, p, a.width, x);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) x[2][k] = y_n[k];
  if (a.dy.data) store_gates(a.dy, p, a.width, x);
  if (a.dh_prev.data) store8(a.dh_prev, p.at, p.n, sum);
}
void run_gru_grad(const KernelArgs& a) {
  const TensorSpec& spec = a.in_spec[2];
  const int64_t rows = spec.shape[0], width = spec.shape[1];
  const GruGradTensors tensors{.dx = stored(a.out[0], spec, width),
                               .dy = stored(a.out[1], spec, width),
                               .dh_prev = stored(a.out[2], spec, width),
                               .gates = stored(a.in[0], spec, width),
                               .y_n = stored(a.in[1], spec, width),
                               .h_prev = stored(a.in[2], spec, width),
                               .dh = stored(a.in[3], spec, width),
                               .sum = stored(input_if_present(a, 5), spec, width),
                               .lengths = input_if_present<int32_t>(a, 4),
                               .rows = rows,
                               .width = width};
  launch(gru_cell_grad_kernel, grid_of_cells(rows, width), kCellThreads, 0, stream_of(a), tensors,
         a.attrs.as<GruAttrs>());
}

// The gradient of the cell in elementary nodes: each product in the order in which they make it.
// Operands as ops/recurrent/gru_replay.cc has them: either x and y, or r, z, n and y_n; `sum`
// absent: none.
struct GruReplay {
  enum : size_t { kHPrev, kDh, kX, kY, kR, kYn = kR + 3, kSum };
};

struct GruReplayTensors {
  Stored dx, dy, dh_prev;  // out
  Stored x, y, activations[3], y_n;
  Stored h_prev, dh, sum;
  int64_t rows, width;
};
__global__ void gru_cell_replay_grad_kernel(GruReplayTensors a) {
  const Place p = place_of(a.rows, a.width);
  if (p.n == 0) return;
  float x[3][kGroup], y[3][kGroup], h[kGroup], dh[kGroup], sum[kGroup];
  if (a.x.data) {
    load_gates(a.x, p, a.width, x);
    load_gates(a.y, p, a.width, y);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      x[0][k] = sigmoid(x[0][k] + y[0][k]), x[1][k] = sigmoid(x[1][k] + y[1][k]);
      x[2][k] = tanh(x[2][k] + x[0][k] * y[2][k]);
    }
  } else {
#pragma unroll
    for (int k = 0; k < 3; ++k) load8(a.activations[k], p.at, p.n, x[k]);
    load8(a.y_n, p.at, p.n, y[2]);
  }
  load8(a.h_prev, p.at, p.n, h);
  load8(a.dh, p.at, p.n, dh);
  load_or_zero(a.sum, p, sum);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    const GruReplayGrad::Out d = GruReplayGrad{}(x[0][k], x[1][k], x[2][k], y[2][k], h[k], dh[k]);
    x[0][k] = d.r, x[1][k] = d.z, x[2][k] = d.xn, y[2][k] = d.yn;
    sum[k] = a.sum.data ? sum[k] + d.h : d.h;
  }
  if (a.dx.data) store_gates(a.dx, p, a.width, x);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) x[2][k] = y[2][k];
  if (a.dy.data) store_gates(a.dy, p, a.width, x);
  if (a.dh_prev.data) store8(a.dh_prev, p.at, p.n, sum);
}
void run_gru_replay_grad(const KernelArgs& a) {
  const TensorSpec& spec = a.in_spec[GruReplay::kHPrev];
  const int64_t rows = spec.shape[0], width = spec.shape[1];
  auto operand = [&](size_t k) { return stored(input_if_present(a, k), spec, width); };
  const GruReplayTensors tensors{.dx = stored(a.out[0], spec, width),
                                 .dy = stored(a.out[1], spec, width),
                                 .dh_prev = stored(a.out[2], spec, width),
                                 .x = operand(GruReplay::kX),
                                 .y = operand(GruReplay::kY),
                                 .activations = {operand(GruReplay::kR), operand(GruReplay::kR + 1),
                                                 operand(GruReplay::kR + 2)},
                                 .y_n = operand(GruReplay::kYn),
                                 .h_prev = operand(GruReplay::kHPrev),
                                 .dh = operand(GruReplay::kDh),
                                 .sum = operand(GruReplay::kSum),
                                 .rows = rows,
                                 .width = width};
  launch(gru_cell_replay_grad_kernel, grid_of_cells(rows, width), kCellThreads, 0, stream_of(a),
         tensors);
}

}  // namespace

const Backend gru_cell_cuda{.run = run_gru};
const Backend gru_cell_grad_cuda{.run = run_gru_grad};
const Backend gru_cell_replay_grad_cuda{.run = run_gru_replay_grad};

}  // namespace pal
