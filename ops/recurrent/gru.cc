// h = n + z (h' - n),  r = sigmoid(x_r + y_r),  z = sigmoid(x_z + y_z),  n = tanh(x_n + r y_n)
// Beside h the cell outputs what its gradient reads: the gates x_r + y_r, x_z + y_z, x_n, which may
// lie over x, and y_n. So y, of which two thirds are in the gates, need not be kept (4 H are
// stashed in place of 6 H); the rest is computed again.
#include "ops/recurrent/gru.h"

#include <algorithm>

#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"
#include "ops/recurrent/hold.h"
#include "ops/recurrent/lstm.h"
#include "ops/tensors/columns.h"

namespace pal {
namespace {

constexpr int64_t kGrain = 4096;  // elements of h: each costs three activations
alignas(64) constexpr float kZeros[kTile] = {};

int64_t rows_per_chunk(int64_t width) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width));
}

void check_widths(const char* op, const TensorSpec& x, const TensorSpec& h,
                  const TensorSpec& lengths) {
  require(x.shape.rank() == 2 && h.shape.rank() == 2 && is_float(x.dtype) && h.dtype == x.dtype &&
              x.shape[0] == h.shape[0] && x.shape[1] == 3 * h.shape[1],
          op, to_string(x) + ", " + to_string(h) + ": want gates (B, 3H) and h_prev (B, H)");
  require(!present(lengths) || lengths == TensorSpec{{h.shape[0]}, DType::i32}, op,
          to_string(lengths) + ": want lengths i32[B]");
}

Specs infer_cell(SpecSpan in, const Attrs& attrs) {
  require(in.size() == 4, "gru_cell", "takes x, y, h_prev, lengths");
  (void)attrs.as<GruAttrs>();
  check_widths("gru_cell", in[0], in[2], in[3]);
  require(in[1] == in[0], "gru_cell",
          to_string(in[0]) + ", " + to_string(in[1]) + ": want x and y of one kind");
  return {plain(in[2]), plain(in[0]), plain(in[2])};
}

// x, y, h_prev, lengths -> h, gates, y_n
void run_cell(const KernelArgs& a) {
  const int64_t rows = a.in_spec[2].shape[0], width = a.in_spec[2].shape[1];
  const int64_t t = a.attrs.as<GruAttrs>().t;
  const DType type = a.in_spec[0].dtype;
  const int32_t* lengths = input_if_present<int32_t>(a, 3);
  parallel_chunks(a.queue, rows, rows_per_chunk(width), [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[11][kTile];
    const GruCell cell;
    for (int64_t row = begin; row < end; ++row) {
      const bool ended = lengths && t >= lengths[row];
      for (int64_t j = 0; j < width; j += kTile) {
        const int64_t n = std::min(kTile, width - j), at = row * width + j;
        const float *x[3], *y[3];
        float* gate[3];
        for (int k = 0; k < 3; ++k) {
          const int64_t from = (3 * row + k) * width + j;
          x[k] = load_tile(a.in[0], type, from, n, buffer[k]);
          y[k] = load_tile(a.in[1], type, from, n, buffer[3 + k]);
          gate[k] = a.out[1] ? tile_to_fill(a.out[1], type, from, buffer[6 + k]) : buffer[6 + k];
        }
        const float *xn = x[2], *yn = y[2];
        for (int k = 0; k < 2; ++k) {
          const float *from_x = x[k], *from_y = y[k];
          float* both = gate[k];
#pragma omp simd
          for (int64_t e = 0; e < n; ++e) both[e] = from_x[e] + from_y[e];
        }
        if (a.out[0]) {
          const float *r = gate[0], *z = gate[1];
          const float* h = load_tile(a.in[2], type, at, n, buffer[9]);
          float* to = tile_to_fill(a.out[0], type, at, buffer[10]);
          if (ended) {
            store_tile(a.out[0], type, at, n, h);
          } else {
#pragma omp simd
            for (int64_t e = 0; e < n; ++e) to[e] = cell(r[e], z[e], xn[e], yn[e], h[e]);
            if (type != DType::f32) store_tile(a.out[0], type, at, n, to);
          }
        }
        if (a.out[1]) {
          for (int k = 0; k < 2 && type != DType::f32; ++k) {
            store_tile(a.out[1], type, (3 * row + k) * width + j, n, gate[k]);
          }
          store_tile(a.out[1], type, (3 * row + 2) * width + j, n, xn);
        }
        if (a.out[2]) store_tile(a.out[2], type, at, n, yn);
      }
    }
  });
}

// gates, y_n, h_prev, dh | lengths, sum (the gradient of h_prev so far) -> dx, dy, dh_prev
Specs infer_cell_grad(SpecSpan in, const Attrs& attrs) {
  const char* op = "gru_cell_grad";
  require(in.size() == 6, op, "takes gates, y_n, h_prev, dh, lengths, sum");
  (void)attrs.as<GruAttrs>();
  check_widths(op, in[0], in[2], in[4]);
  require(in[1] == in[2] && in[3] == in[2] && (!present(in[5]) || in[5] == in[2]), op,
          to_string(in[1]) + ", " + to_string(in[3]) + ", " + to_string(in[5]) +
              ": want y_n, dh and the sum like h_prev " + to_string(in[2]));
  return {plain(in[0]), plain(in[0]), plain(in[2])};
}

void run_cell_grad(const KernelArgs& a) {
  const int64_t rows = a.in_spec[2].shape[0], width = a.in_spec[2].shape[1];
  const int64_t t = a.attrs.as<GruAttrs>().t;
  const DType type = a.in_spec[0].dtype;
  const int32_t* lengths = input_if_present<int32_t>(a, 4);
  const void* sum_in = input_if_present(a, 5);
  auto fill = [&](void* out, int64_t at, float* buffer) {
    return out ? tile_to_fill(out, type, at, buffer) : buffer;
  };
  auto keep = [&](void* out, int64_t at, int64_t n, const float* tile) {
    if (out && type != DType::f32) store_tile(out, type, at, n, tile);
  };
  parallel_chunks(a.queue, rows, rows_per_chunk(width), [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[14][kTile];
    const GruCellGrad cell;
    for (int64_t row = begin; row < end; ++row) {
      const bool ended = lengths && t >= lengths[row];
      for (int64_t j = 0; j < width; j += kTile) {
        const int64_t n = std::min(kTile, width - j), at = row * width + j;
        const float* dh = load_tile(a.in[3], type, at, n, buffer[0]);
        const float* sum = sum_in ? load_tile(sum_in, type, at, n, buffer[1]) : kZeros;
        float* to_h = fill(a.out[2], at, buffer[2]);
        if (ended) {
#pragma omp simd
          for (int64_t e = 0; e < n; ++e) to_h[e] = sum[e] + dh[e];
          for (int k = 0; k < 3; ++k) {
            for (size_t out : {0, 1}) {
              if (a.out[out]) store_tile(a.out[out], type, (3 * row + k) * width + j, n, kZeros);
            }
          }
        } else {
          const float* gate[3];
          float *dx[3], *dy[3];
          for (int k = 0; k < 3; ++k) {
            const int64_t from = (3 * row + k) * width + j;
            gate[k] = load_tile(a.in[0], type, from, n, buffer[3 + k]);
            dx[k] = fill(a.out[0], from, buffer[6 + k]);
            dy[k] = fill(a.out[1], from, buffer[9 + k]);
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
            keep(a.out[0], (3 * row + k) * width + j, n, dx[k]);
            keep(a.out[1], (3 * row + k) * width + j, n, dy[k]);
          }
        }
        keep(a.out[2], at, n, to_h);
      }
    }
  });
}

void cell_gradient(GradientArgs& g) {
  if (!g.dy()) return;  // what the gradient reads is no part of a loss
  const Val sum = g.wants(2) ? g.sum(2) : Val{};
  auto d = g.builder.emit(gru_cell_grad_op, {g.out(1), g.out(2), g.in(2), g.dy(), g.in(3), sum},
                          g.node.attrs);
  if (g.wants(0)) g.give(0, d[0]);
  if (g.wants(1)) g.give(1, d[1]);
  if (g.wants(2)) g.give_total(2, d[2]);
}

Cost cost_of_cell(SpecSpan in, SpecSpan out, const Attrs&) {
  return cell_cost(70.0 * double(in[2].numel()), in, out);
}

ExampleOperand lengths_example(int64_t batch) { return example({batch}, DType::i32, 0, 4); }

Example cell_example(int64_t batch, int64_t width, DType type, bool lengths, int64_t t) {
  return {.operands = {example({batch, 3 * width}, type), example({batch, 3 * width}, type),
                       example({batch, width}, type),
                       lengths ? lengths_example(batch) : absent_example()},
          .attrs = GruAttrs{t}};
}

// As a program that only recognises has it.
Example unread_example() {
  Example e = cell_example(5, 17, DType::f32, true, 2);
  e.unread = {0, 1, 1};
  return e;
}

Example grad_example(int64_t batch, int64_t width, DType type, bool lengths, bool sum, int64_t t) {
  Example e = cell_example(batch, width, type, lengths, t);
  e.operands[1] = example({batch, width}, type);
  e.operands.insert(e.operands.begin() + 3, example({batch, width}, type));
  e.operands.push_back(sum ? example({batch, width}, type) : absent_example());
  return e;
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
    .examples =
        [] {
          return std::vector<Example>{cell_example(3, 5, DType::f32, false, 0),
                                      cell_example(5, 17, DType::f32, true, 2),
                                      cell_example(4, 11, DType::bf16, true, 2),
                                      cell_example(9, 540, DType::f32, true, 2), unread_example()};
        },
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
    .examples =
        [] {
          return std::vector<Example>{grad_example(3, 5, DType::f32, false, false, 0),
                                      grad_example(3, 5, DType::f32, true, true, 1),
                                      grad_example(4, 11, DType::f16, true, true, 2),
                                      grad_example(9, 540, DType::f32, true, false, 2)};
        },
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
