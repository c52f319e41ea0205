// LSTM cell (Hochreiter & Schmidhuber 1997, with Gers' forget gate), gates in the order i, f, g, o:
//   c = sigmoid(f + bias) c' + sigmoid(i) tanh(g),  h = sigmoid(o) tanh(c)
// The gradient reads the preactivations and c' alone and computes the rest again: five activations
// cost less than reading them, and nothing but the gates is stashed; its result may lie over them.
#include "ops/recurrent/lstm.h"

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
  require(in.size() == 4, "takes gates, c_prev, h_prev, lengths");
  (void)attrs.as<LstmAttrs>();
  require_gates(in[0], in[1], 4);
  require_lengths(in[3], in[1]);
  const bool held = present(in[2]), lengths = present(in[3]);
  require(held == lengths, "h_prev and lengths go together");
  require(!held || in[2] == in[1], in[2], ": want h_prev like c_prev ", in[1]);
  return {plain(in[1]), plain(in[1])};
}

void run_cell(const KernelArgs& a) {
  auto& attrs = a.attrs.as<LstmAttrs>();
  const DType type = a.in_spec[0].dtype;
  const CellStore store{type};
  const int32_t* lengths = input_if_present<int32_t>(a, 3);
  void *h_out = a.out[0], *c_out = a.out[1];
  auto one = [&](const CellTile& tile, float(&buffer)[7][kTile]) {
    const int64_t at = tile.at(), n = tile.n;
    if (tile.ended) {
      const float* c = load_tile(a.in[1], type, at, n, buffer[0]);
      const float* h = load_tile(a.in[2], type, at, n, buffer[1]);
      if (c_out) store_tile(c_out, type, at, n, c);
      if (h_out) store_tile(h_out, type, at, n, h);
      return;
    }
    const LstmCell cell{attrs.forget_bias};
    const float* x[4];
    for (int k = 0; k < 4; ++k) {
      x[k] = load_tile(a.in[0], type, tile.gate(4, k), n, buffer[k]);
    }
    const float *i = x[0], *f = x[1], *g = x[2], *o = x[3];
    const float* c_prev = load_tile(a.in[1], type, at, n, buffer[4]);
    float *c = store.fill(c_out, at, buffer[5]), *h = store.fill(h_out, at, buffer[6]);
#pragma omp simd
    for (int64_t e = 0; e < n; ++e) {
      const LstmCell::Out y = cell(i[e], f[e], g[e], o[e], c_prev[e]);
      c[e] = y.c, h[e] = y.h;
    }
    store.keep(c_out, at, n, c);
    store.keep(h_out, at, n, h);
  };
  each_cell_tile<7>(a.queue, a.in_spec[1].shape, lengths, attrs.t, one);
}

// gates, c_prev | dh, dc, lengths, sum (the gradient of h_prev so far) -> dgates, dc_prev, dh_prev
Specs infer_cell_grad(SpecSpan in, const Attrs& attrs) {
  require(in.size() == 6, "takes gates, c_prev, dh, dc, lengths, sum");
  (void)attrs.as<LstmAttrs>();
  require_gates(in[0], in[1], 4);
  require_lengths(in[4], in[1]);
  const bool dh = present(in[2]), dc = present(in[3]);
  require((dh || dc) && (!dh || in[2] == in[1]) && (!dc || in[3] == in[1]), in[2], ", ", in[3],
          ": want dh or dc like c_prev ", in[1]);
  const bool lengths = present(in[4]), sum = present(in[5]);
  require(!sum || (lengths && in[5] == in[1]), in[5],
          ": the sum goes with lengths, and is like c_prev");
  if (!lengths) return {plain(in[0]), plain(in[1])};
  return {plain(in[0]), plain(in[1]), plain(in[1])};
}

void run_cell_grad(const KernelArgs& a) {
  auto& attrs = a.attrs.as<LstmAttrs>();
  const DType type = a.in_spec[0].dtype;
  const CellStore store{type};
  const int32_t* lengths = input_if_present<int32_t>(a, 4);
  void* dh_prev = lengths ? a.out[2] : nullptr;
  const void *dh_in = input_if_present(a, 2), *dc_in = input_if_present(a, 3);
  const void* sum_in = input_if_present(a, 5);
  auto one = [&](const CellTile& tile, float(&buffer)[14][kTile]) {
    const int64_t at = tile.at(), n = tile.n;
    const float* dh = dh_in ? load_tile(dh_in, type, at, n, buffer[0]) : kZeroTile;
    const float* dc = dc_in ? load_tile(dc_in, type, at, n, buffer[1]) : kZeroTile;
    const float* sum = sum_in ? load_tile(sum_in, type, at, n, buffer[2]) : kZeroTile;
    float *to_c = store.fill(a.out[1], at, buffer[3]), *to_h = store.fill(dh_prev, at, buffer[4]);
    if (tile.ended) {
      // In this order: to_h may lie over sum or dh, to_c over dc or dh.
#pragma omp simd
      for (int64_t e = 0; e < n; ++e) {
        const float h = dh[e], c = dc[e];
        to_h[e] = sum[e] + h, to_c[e] = c;
      }
      store.zero_gates(a.out[0], tile, 4);
    } else {
      const LstmCellGrad cell{attrs.forget_bias};
      const float* x[4];
      float* d[4];
      for (int k = 0; k < 4; ++k) {
        x[k] = load_tile(a.in[0], type, tile.gate(4, k), n, buffer[5 + k]);
        d[k] = store.fill(a.out[0], tile.gate(4, k), buffer[9 + k]);
      }
      const float* c_prev = load_tile(a.in[1], type, at, n, buffer[13]);
      const float *i = x[0], *f = x[1], *g = x[2], *o = x[3];
      float *di = d[0], *df = d[1], *dg = d[2], *d_o = d[3];
#pragma omp simd
      for (int64_t e = 0; e < n; ++e) {
        const LstmCellGrad::Out y = cell(i[e], f[e], g[e], o[e], c_prev[e], dh[e], dc[e]);
        const float s = sum[e];
        di[e] = y.i, df[e] = y.f, dg[e] = y.g, d_o[e] = y.o;
        to_h[e] = s, to_c[e] = y.c_prev;
      }
      for (int k = 0; k < 4; ++k) store.keep(a.out[0], tile.gate(4, k), n, d[k]);
    }
    store.keep(dh_prev, at, n, to_h);
    store.keep(a.out[1], at, n, to_c);
  };
  each_cell_tile<14>(a.queue, a.in_spec[1].shape, lengths, attrs.t, one);
}

void cell_gradient(GradientArgs& g) {
  const Val sum = g.in(3) ? g.take_sum(2) : Val{};
  g.give_all(g.builder.emit(lstm_cell_grad_op, {g.in(0), g.in(1), g.dy(0), g.dy(1), g.in(3), sum},
                            g.node.attrs));
}

Cost cost_of_cell(SpecSpan in, SpecSpan out, const Attrs&) {
  return streaming_cost(110.0 * double(in[1].numel()), in, out);
}

}  // namespace

const OpDef lstm_cell_op{
    .name = "lstm_cell",
    .formula = "c = sigmoid(f + bias) c' + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c)",
    .infer = infer_cell,
    .gradient = cell_gradient,
    .optional_from = 2,
    .shares = {{1, 1}, {0, 2}},
    .cost = cost_of_cell,
    .cpu = {.run = run_cell},
    .cuda = &lstm_cell_cuda,
    .examples =
        {{.operands = cell_operands("gs--", 4, 3, 5), .attrs = LstmAttrs{}},
         {.operands = cell_operands("gssl", 4, 5, 17), .attrs = LstmAttrs{1, 2}},
         {.operands = cell_operands("gssl", 4, 4, 11, DType::bf16), .attrs = LstmAttrs{0, 2}},
         {.operands = cell_operands("gssl", 4, 9, 540), .attrs = LstmAttrs{0.5f, 2}},
         {.operands = cell_operands("gs--", 4, 3, 5), .attrs = LstmAttrs{}, .unread = {1, 0}}},
};

const OpDef lstm_cell_grad_op{
    .name = "lstm_cell_grad",
    .formula = "d(gates, c', h') of lstm_cell, activations computed again",
    .infer = infer_cell_grad,
    .optional_from = 2,
    .shares = {{0, 0}, {1, 3}, {1, 1}, {1, 2}, {2, 5}, {2, 2}},
    .cost = cost_of_cell,
    .cpu = {.run = run_cell_grad},
    .cuda = &lstm_cell_grad_cuda,
    .examples = {{.operands = cell_operands("gsss--", 4, 3, 5), .attrs = LstmAttrs{1, 0}},
                 {.operands = cell_operands("gs-sl-", 4, 3, 5), .attrs = LstmAttrs{0, 1}},
                 {.operands = cell_operands("gss-ls", 4, 4, 11, DType::f16),
                  .attrs = LstmAttrs{0, 2}},
                 {.operands = cell_operands("gsssls", 4, 9, 540), .attrs = LstmAttrs{0.5f, 2}}},
};

LstmState lstm_cell(Val gates, Val c_prev, float forget_bias) {
  auto out = gates.builder->emit(lstm_cell_op, {gates, c_prev, {}, {}}, LstmAttrs{forget_bias, 0});
  return {out[0], out[1]};
}

LstmState lstm_cell(Val gates, LstmState prev, Val lengths, int64_t t, float forget_bias) {
  auto out = gates.builder->emit(lstm_cell_op, {gates, prev.c, prev.h, lengths},
                                 LstmAttrs{forget_bias, t});
  return {out[0], out[1]};
}

LstmState lstm_cell_unfused(Val gates, Val c_prev) {
  const int64_t width = c_prev.shape().back();
  const std::vector<Val> x = split(gates, {width, width, width, width});
  const Val i = sigmoid(x[0]), f = sigmoid(x[1]), g = tanh(x[2]), o = sigmoid(x[3]);
  const Val c = add(mul(f, c_prev), mul(i, g));
  return {mul(o, tanh(c)), c};
}

LstmState lstm_cell_unfused(Val gates, LstmState prev, Val lengths, int64_t t) {
  const LstmState next = lstm_cell_unfused(gates, prev.c);
  return {hold(next.h, prev.h, lengths, t), hold(next.c, prev.c, lengths, t)};
}

}  // namespace pal
