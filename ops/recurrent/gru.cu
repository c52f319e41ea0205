// The GRU cell and its gradients: some columns of a row a thread, with the CPU's functors.
#include "ops/recurrent/cuda_cells.h"
#include "ops/recurrent/gru.h"

namespace pal {
namespace {

// x, y, h_prev, lengths -> h, gates, y_n
template <int P, class T> __global__ void gru_cell_kernel(CellTensors a, GruAttrs attrs) {
  const Stored &h_out = a.out[0], &gates = a.out[1], &y_n = a.out[2];
  const RowGroup p = row_group(a.rows, a.width, P);
  if (p.n == 0) return;
  float x[3][P], y[3][P];
  load_gates<T>(a.in[0], p, a.width, x);
  load_gates<T>(a.in[1], p, a.width, y);
#pragma unroll
  for (int k = 0; k < P; ++k) x[0][k] = x[0][k] + y[0][k], x[1][k] = x[1][k] + y[1][k];
  if (h_out.data) {
    float h[P];
    load_columns<T>(a.in[2], p.at, p.n, h);
    if (!a.ended(p, attrs.t)) {
#pragma unroll
      for (int k = 0; k < P; ++k) {
        h[k] = GruCell{}(x[0][k], x[1][k], x[2][k], y[2][k], h[k]);
      }
    }
    store_columns<T>(h_out, p.at, p.n, h);
  }
  if (gates.data) store_gates<T>(gates, p, a.width, x);
  if (y_n.data) store_columns<T>(y_n, p.at, p.n, y[2]);
}
void run_gru(const KernelArgs& a) {
  const CellTensors cell(a, 2, input_if_present<int32_t>(a, 3));
  by_columns(cell, [&]<class T>(auto per, std::type_identity<T>) {
    launch(gru_cell_kernel<per(), T>, grid_of(cell), kCellThreads, a, cell, a.attrs.as<GruAttrs>());
  });
}

// Outputs 0, 1 and 2: the gradients of x, whose gates `x` holds, of y, whose last gate differs, and
// of h_prev.
template <class T, int P>
__device__ void store_gradients(const CellTensors& a, const RowGroup& p, float (&x)[3][P],
                                const float (&y_n)[P], const float (&h_prev)[P]) {
  if (a.out[0].data) store_gates<T>(a.out[0], p, a.width, x);
#pragma unroll
  for (int k = 0; k < P; ++k) x[2][k] = y_n[k];
  if (a.out[1].data) store_gates<T>(a.out[1], p, a.width, x);
  if (a.out[2].data) store_columns<T>(a.out[2], p.at, p.n, h_prev);
}

// gates, y_n, h_prev, dh, lengths, sum
template <int P, class T> __global__ void gru_cell_grad_kernel(CellTensors a, GruAttrs attrs) {
  const RowGroup p = row_group(a.rows, a.width, P);
  if (p.n == 0) return;
  float x[3][P], y_n[P], h[P], dh[P], sum[P];  // x: the gates, then dx
  load_gates<T>(a.in[0], p, a.width, x);
  load_columns<T>(a.in[1], p.at, p.n, y_n);
  load_columns<T>(a.in[2], p.at, p.n, h);
  load_columns<T>(a.in[3], p.at, p.n, dh);
  load_or_zero<T>(a.in[5], a.in[3], p, sum);
  if (a.ended(p, attrs.t)) {
#pragma unroll
    for (int k = 0; k < P; ++k) {
      sum[k] = sum[k] + dh[k];
      x[0][k] = x[1][k] = x[2][k] = y_n[k] = 0;
    }
  } else {
#pragma unroll
    for (int k = 0; k < P; ++k) {
      const GruCellGrad::Out d = GruCellGrad{}(x[0][k], x[1][k], x[2][k], y_n[k], h[k], dh[k]);
      x[0][k] = d.r, x[1][k] = d.z, x[2][k] = d.xn, y_n[k] = d.yn;
      sum[k] = sum[k] + d.h;
    }
  }
  store_gradients<T>(a, p, x, y_n, sum);
}
void run_gru_grad(const KernelArgs& a) {
  const CellTensors cell(a, 2, input_if_present<int32_t>(a, 4));
  by_columns(cell, [&]<class T>(auto per, std::type_identity<T>) {
    launch(gru_cell_grad_kernel<per(), T>, grid_of(cell), kCellThreads, a, cell,
           a.attrs.as<GruAttrs>());
  });
}

// Operands as GruReplay has them.
template <int P, class T> __global__ void gru_cell_replay_grad_kernel(CellTensors a) {
  using R = GruReplay;
  const RowGroup p = row_group(a.rows, a.width, P);
  if (p.n == 0) return;
  float x[3][P], y[3][P], h[P], dh[P], sum[P];
  if (a.in[R::kX].data) {
    load_gates<T>(a.in[R::kX], p, a.width, x);
    load_gates<T>(a.in[R::kY], p, a.width, y);
#pragma unroll
    for (int k = 0; k < P; ++k) {
      x[0][k] = sigmoid(x[0][k] + y[0][k]), x[1][k] = sigmoid(x[1][k] + y[1][k]);
      x[2][k] = tanh(x[2][k] + x[0][k] * y[2][k]);
    }
  } else {
#pragma unroll
    for (int k = 0; k < 3; ++k) load_columns<T>(a.in[R::kR + k], p.at, p.n, x[k]);
    load_columns<T>(a.in[R::kYn], p.at, p.n, y[2]);
  }
  load_columns<T>(a.in[R::kHPrev], p.at, p.n, h);
  load_columns<T>(a.in[R::kDh], p.at, p.n, dh);
  load_or_zero<T>(a.in[R::kSum], a.in[R::kDh], p, sum);
#pragma unroll
  for (int k = 0; k < P; ++k) {
    const GruReplayGrad::Out d = GruReplayGrad{}(x[0][k], x[1][k], x[2][k], y[2][k], h[k], dh[k]);
    x[0][k] = d.r, x[1][k] = d.z, x[2][k] = d.xn, y[2][k] = d.yn;
    sum[k] = a.in[R::kSum].data ? sum[k] + d.h : d.h;
  }
  store_gradients<T>(a, p, x, y[2], sum);
}
void run_gru_replay_grad(const KernelArgs& a) {
  const CellTensors cell(a, GruReplay::kHPrev);
  by_columns(cell, [&]<class T>(auto per, std::type_identity<T>) {
    launch(gru_cell_replay_grad_kernel<per(), T>, grid_of(cell), kCellThreads, a, cell);
  });
}

}  // namespace

const Backend gru_cell_cuda{.run = run_gru};
const Backend gru_cell_grad_cuda{.run = run_gru_grad};
const Backend gru_cell_replay_grad_cuda{.run = run_gru_replay_grad};

}  // namespace pal
