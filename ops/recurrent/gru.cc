// h = n + z (h' - n),  r = sigmoid(x_r + y_r),  z = sigmoid(x_z + y_z),  n = tanh(x_n + r y_n)
// Beside h the cell outputs what its gradient reads: the gates x_r + y_r, x_z + y_z, x_n, which may
// lie over x, and y_n. So y, of which two thirds are in the gates, need not be kept (4 H are
// stashed in place of 6 H); the rest is computed again.
#include "ops/recurrent/gru.h"

#include "core/gradient.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/operands.h"
#include "ops/recurrent/cells.h"
#include "ops/recurrent/hold.h"
#include "ops/tensors/columns.h"

namespace pal {
namespace {

Specs infer_cell(SpecSpan in, const Attrs& attrs) {
  require(in.size() == 4, "takes x, y, h_prev, lengths");
  (void)attrs.as<GruAttrs>();
  require_gates(in[0], in[2], 3);
  require_lengths(in[3], in[2]);
  require(in[1] == in[0], in[0], ", ", in[1], ": want x and y of one kind");
  return {plain(in[2]), plain(in[0]), plain(in[2])};
}

// x, y, h_prev, lengths -> h, gates, y_n
void run_cell(const KernelArgs& a) {
  const DType type = a.in_spec[0].dtype;
  const CellStore store{type};
  auto one = [&](const CellTile& tile, float(&buffer)[11][kTile]) {
    const int64_t at = tile.at(), n = tile.n;
    const float *x[3], *y[3];
    float* gate[3];
    for (int k = 0; k < 3; ++k) {
      const int64_t from = tile.gate(3, k);
      x[k] = load_tile(a.in[0], type, from, n, buffer[k]);
      y[k] = load_tile(a.in[1], type, from, n, buffer[3 + k]);
      gate[k] = store.fill(a.out[1], from, buffer[6 + k]);
    }
    const float *xn = x[2], *yn = y[2];
    for (int k = 0; k < 2; ++k) {
      const float *from_x = x[k], *from_y = y[k];
      float* both = gate[k];
#pragma omp simd
      for (int64_t e = 0; e < n; ++e) both[e] = from_x[e] + from_y[e];
    }
    if (a.out[0]) {
      const GruCell cell;
      const float *r = gate[0], *z = gate[1];
      const float* h = load_tile(a.in[2], type, at, n, buffer[9]);
      float* to = store.fill(a.out[0], at, buffer[10]);
      if (tile.ended) {
        store_tile(a.out[0], type, at, n, h);
      } else {
#pragma omp simd
        for (int64_t e = 0; e < n; ++e) to[e] = cell(r[e], z[e], xn[e], yn[e], h[e]);
        store.keep(a.out[0], at, n, to);
      }
    }
    for (int k = 0; k < 2; ++k) store.keep(a.out[1], tile.gate(3, k), n, gate[k]);
    if (a.out[1]) store_tile(a.out[1], type, tile.gate(3, 2), n, xn);
    if (a.out[2]) store_tile(a.out[2], type, at, n, yn);
  };
  each_cell_tile<11>(a.queue, a.in_spec[2].shape, input_if_present<int32_t>(a, 3),
                     a.attrs.as<GruAttrs>().t, one);
}

// gates, y_n, h_prev, dh | lengths, sum (the gradient of h_prev so far) -> dx, dy, dh_prev
Specs infer_cell_grad(SpecSpan in, const Attrs& attrs) {
  require(in.size() == 6, "takes gates, y_n, h_prev, dh, lengths, sum");
  (void)attrs.as<GruAttrs>();
  require_gates(in[0], in[2], 3);
  require_lengths(in[4], in[2]);
  require(in[1] == in[2] && in[3] == in[2] && (!present(in[5]) || in[5] == in[2]), in[1], ", ",
          in[3], ", ", in[5], ": want y_n, dh and the sum like h_prev ", in[2]);
  return {plain(in[0]), plain(in[0]), plain(in[2])};
}

void run_cell_grad(const KernelArgs& a) {
  const DType type = a.in_spec[0].dtype;
  const CellStore store{type};
  const void* sum_in = input_if_present(a, 5);
  auto one = [&](const CellTile& tile, float(&buffer)[14][kTile]) {
    const int64_t at = tile.at(), n = tile.n;
    const float* dh = load_tile(a.in[3], type, at, n, buffer[0]);
    const float* sum = sum_in ? load_tile(sum_in, type, at, n, buffer[1]) : kZeroTile;
    float* to_h = store.fill(a.out[2], at, buffer[2]);
    if (tile.ended) {
#pragma omp simd
      for (int64_t e = 0; e < n; ++e) to_h[e] = sum[e] + dh[e];
      for (size_t out : {0, 1}) store.zero_gates(a.out[out], tile, 3);
    } else {
      const GruCellGrad cell;
      const float* gate[3];
      float *dx[3], *dy[3];
      for (int k = 0; k < 3; ++k) {
        const int64_t from = tile.gate(3, k);
        gate[k] = load_tile(a.in[0], type, from, n, buffer[3 + k]);
        dx[k] = store.fill(a.out[0], from, buffer[6 + k]);
        dy[k] = store.fill(a.out[1], from, buffer[9 + k]);
      }
      const float* yn = load_tile(a.in[1], type, at, n, buffer[12]);
      const float* h = load_tile(a.in[2], type, at, n, buffer[13]);
      const float *r = gate[0], *z = gate[1], *xn = gate[2];
      float *dxr = dx[0], *dxz = dx[1], *dxn = dx[2], *dyr = dy[0], *dyz = dy[1], *dyn = dy[2];
#pragma omp simd
      for (int64_t e = 0; e < n; ++e) {
        const GruCellGrad::Out d = cell(r[e], z[e], xn[e], yn[e], h[e], dh[e]);
        const float s = sum[e];
        dxr[e] = d.r, dxz[e] = d.z, dxn[e] = d.xn;
        dyr[e] = d.r, dyz[e] = d.z, dyn[e] = d.yn;
        to_h[e] = s + d.h;
      }
      for (int k = 0; k < 3; ++k) {
        store.keep(a.out[0], tile.gate(3, k), n, dx[k]);
        store.keep(a.out[1], tile.gate(3, k), n, dy[k]);
      }
    }
    store.keep(a.out[2], at, n, to_h);
  };
  each_cell_tile<14>(a.queue, a.in_spec[2].shape, input_if_present<int32_t>(a, 4),
                     a.attrs.as<GruAttrs>().t, one);
}

void cell_gradient(GradientArgs& g) {
  if (!g.dy()) return;  // what the gradient reads is no part of a loss
  g.give_all(g.builder.emit(gru_cell_grad_op,
                            {g.out(1), g.out(2), g.in(2), g.dy(), g.in(3), g.take_sum(2)},
                            g.node.attrs));
}

Cost cost_of_cell(SpecSpan in, SpecSpan out, const Attrs&) {
  return streaming_cost(70.0 * double(in[2].numel()), in, out);
}

}  // namespace

const OpDef gru_cell_op{
    .name = "gru_cell",
    .formula = "n + z (h' - n), z = sigmoid(x + y), n = tanh(x + sigmoid(x + y) y); gates, y_n",
    .infer = infer_cell,
    .gradient = cell_gradient,
    .optional_from = 3,
    .shares = {{0, 2}, {1, 0}},
    .cost = cost_of_cell,
    .cpu = {.run = run_cell},
    .cuda = &gru_cell_cuda,
    .examples = {{.operands = cell_operands("ggs-", 3, 3, 5), .attrs = GruAttrs{0}},
                 {.operands = cell_operands("ggsl", 3, 5, 17), .attrs = GruAttrs{2}},
                 {.operands = cell_operands("ggsl", 3, 4, 11, DType::bf16), .attrs = GruAttrs{2}},
                 {.operands = cell_operands("ggsl", 3, 9, 540), .attrs = GruAttrs{2}},
                 // As a program that only recognises has it.
                 {.operands = cell_operands("ggsl", 3, 5, 17),
                  .attrs = GruAttrs{2},
                  .unread = {0, 1, 1}}},
};

const OpDef gru_cell_grad_op{
    .name = "gru_cell_grad",
    .formula = "d(x, y, h') of gru_cell from its gates, activations computed again",
    .infer = infer_cell_grad,
    .optional_from = 4,
    .shares = {{0, 0}, {1, 0}, {2, 1}, {2, 2}, {2, 3}, {2, 5}},
    .cost = cost_of_cell,
    .cpu = {.run = run_cell_grad},
    .cuda = &gru_cell_grad_cuda,
    .examples = {{.operands = cell_operands("gsss--", 3, 3, 5), .attrs = GruAttrs{0}},
                 {.operands = cell_operands("gsssls", 3, 3, 5), .attrs = GruAttrs{1}},
                 {.operands = cell_operands("gsssls", 3, 4, 11, DType::f16), .attrs = GruAttrs{2}},
                 {.operands = cell_operands("gsssl-", 3, 9, 540), .attrs = GruAttrs{2}}},
};

Val gru_cell(Val x, Val y, Val h_prev) { return gru_cell(x, y, h_prev, {}, 0); }

Val gru_cell(Val x, Val y, Val h_prev, Val lengths, int64_t t) {
  const auto out = x.builder->emit(gru_cell_op, {x, y, h_prev, lengths}, GruAttrs{t});
  return out[0];
}

Val gru_cell_unfused(Val x, Val y, Val h_prev) {
  const int64_t width = h_prev.shape().back();
  const std::vector<Val> from_x = split(x, {width, width, width});
  const std::vector<Val> from_y = split(y, {width, width, width});
  const Val r = sigmoid(add(from_x[0], from_y[0])), z = sigmoid(add(from_x[1], from_y[1]));
  const Val n = tanh(add(from_x[2], mul(r, from_y[2])));
  return add(n, mul(z, sub(h_prev, n)));
}

Val gru_cell_unfused(Val x, Val y, Val h_prev, Val lengths, int64_t t) {
  return hold(gru_cell_unfused(x, y, h_prev), h_prev, lengths, t);
}

}  // namespace pal
