// The LSTM cell and its gradients: some columns of a row a thread, with the CPU's functors.
#include "ops/recurrent/cuda_cells.h"
#include "ops/recurrent/lstm.h"

namespace pal {
namespace {

// gates, c_prev, h_prev, lengths -> h, c
template <int P, class T> __global__ void lstm_cell_kernel(CellTensors a, LstmAttrs attrs) {
  const Stored &gates = a.in[0], &c_prev = a.in[1], &h_prev = a.in[2];
  const RowGroup p = row_group(a.rows, a.width, P);
  if (p.n == 0) return;
  float x[4][P], h[P], c[P];
  load_columns<T>(c_prev, p.at, p.n, c);
  load_gates<T>(gates, p, a.width, x);
  if (a.ended(p, attrs.t)) {
    load_columns<T>(h_prev, p.at, p.n, h);
  } else {
    const LstmCell cell{attrs.forget_bias};
#pragma unroll
    for (int k = 0; k < P; ++k) {
      const LstmCell::Out y = cell(x[0][k], x[1][k], x[2][k], x[3][k], c[k]);
      c[k] = y.c, h[k] = y.h;
    }
  }
  if (a.out[0].data) store_columns<T>(a.out[0], p.at, p.n, h);
  if (a.out[1].data) store_columns<T>(a.out[1], p.at, p.n, c);
}
void run_lstm(const KernelArgs& a) {
  const CellTensors cell(a, 1, input_if_present<int32_t>(a, 3));
  by_columns(cell, [&]<class T>(auto per, std::type_identity<T>) {
    launch(lstm_cell_kernel<per(), T>, grid_of(cell), kCellThreads, a, cell,
           a.attrs.as<LstmAttrs>());
  });
}

// gates, c_prev, dh, dc, lengths, sum -> dgates, dc_prev, dh_prev
template <int P, class T> __global__ void lstm_cell_grad_kernel(CellTensors a, LstmAttrs attrs) {
  const Stored &gates = a.in[0], &dgates = a.out[0], &dc_prev = a.out[1], &dh_prev = a.out[2];
  const RowGroup p = row_group(a.rows, a.width, P);
  if (p.n == 0) return;
  float x[4][P], c_prev[P], dh[P], dc[P], sum[P];
  load_gates<T>(gates, p, a.width, x);
  load_columns<T>(a.in[1], p.at, p.n, c_prev);
  load_or_zero<T>(a.in[2], a.in[1], p, dh);
  load_or_zero<T>(a.in[3], a.in[1], p, dc);
  load_or_zero<T>(a.in[5], a.in[1], p, sum);
  if (a.ended(p, attrs.t)) {
#pragma unroll
    for (int k = 0; k < P; ++k) {
      sum[k] = sum[k] + dh[k];
      x[0][k] = x[1][k] = x[2][k] = x[3][k] = 0;
    }
  } else {
    const LstmCellGrad cell{attrs.forget_bias};
#pragma unroll
    for (int k = 0; k < P; ++k) {
      const LstmCellGrad::Out y = cell(x[0][k], x[1][k], x[2][k], x[3][k], c_prev[k], dh[k], dc[k]);
      x[0][k] = y.i, x[1][k] = y.f, x[2][k] = y.g, x[3][k] = y.o;
      dc[k] = y.c_prev;
    }
  }
  if (dgates.data) store_gates<T>(dgates, p, a.width, x);
  if (dc_prev.data) store_columns<T>(dc_prev, p.at, p.n, dc);
  if (dh_prev.data) store_columns<T>(dh_prev, p.at, p.n, sum);
}
void run_lstm_grad(const KernelArgs& a) {
  const CellTensors cell(a, 1, input_if_present<int32_t>(a, 4));
  by_columns(cell, [&]<class T>(auto per, std::type_identity<T>) {
    launch(lstm_cell_grad_kernel<per(), T>, grid_of(cell), kCellThreads, a, cell,
           a.attrs.as<LstmAttrs>());
  });
}

// Operands and outputs as LstmReplay has them.
template <int P, class T> __global__ void lstm_cell_replay_grad_kernel(CellTensors a) {
  using R = LstmReplay;
  const RowGroup p = row_group(a.rows, a.width, P);
  if (p.n == 0) return;
  const bool has_gates = a.in[R::kGates].data, has_c = a.in[R::kC].data, has_dc = a.in[R::kDc].data;
  float x[4][P], c_prev[P], dh[P], c[P], dc[P];
  if (has_gates) {
    load_gates<T>(a.in[R::kGates], p, a.width, x);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k) load_columns<T>(a.in[R::kI + k], p.at, p.n, x[k]);
  }
  load_columns<T>(a.in[R::kCPrev], p.at, p.n, c_prev);
  load_columns<T>(a.in[R::kDh], p.at, p.n, dh);
  load_or_zero<T>(a.in[R::kC], a.in[R::kCPrev], p, c);
  load_or_zero<T>(a.in[R::kDc], a.in[R::kCPrev], p, dc);
#pragma unroll
  for (int k = 0; k < P; ++k) {
    const LstmReplayGrad::Out d = LstmReplayGrad{has_c, has_dc}(
        has_gates ? sigmoid(x[0][k]) : x[0][k], has_gates ? sigmoid(x[1][k]) : x[1][k],
        has_gates ? tanh(x[2][k]) : x[2][k], has_gates ? sigmoid(x[3][k]) : x[3][k], c_prev[k],
        c[k], dh[k], dc[k]);
    x[0][k] = d.i, x[1][k] = d.f, x[2][k] = d.g, x[3][k] = d.o;
    dc[k] = d.c_prev;
  }
  if (a.out[0].data) store_gates<T>(a.out[0], p, a.width, x);
  if (a.out[1].data) store_columns<T>(a.out[1], p.at, p.n, dc);
}
void run_lstm_replay_grad(const KernelArgs& a) {
  const CellTensors cell(a, LstmReplay::kCPrev);
  by_columns(cell, [&]<class T>(auto per, std::type_identity<T>) {
    launch(lstm_cell_replay_grad_kernel<per(), T>, grid_of(cell), kCellThreads, a, cell);
  });
}

}  // namespace

const Backend lstm_cell_cuda{.run = run_lstm};
const Backend lstm_cell_grad_cuda{.run = run_lstm_grad};
const Backend lstm_cell_replay_grad_cuda{.run = run_lstm_replay_grad};

}  // namespace pal
