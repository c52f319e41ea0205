// The gradient of gru_cell_unfused in one pass, with what was recomputed for it (slices, sums,
// activations) computed again on the way:
//   r, z = sigmoid(x + y), n = tanh(x_n + r y_n)
//   dn = (dh - dh z) (1 - n^2):  dz = dh (h' - n) z (1 - z), dr = dn y_n r (1 - r),
//   dx = dr, dz, dn;  dy = dr, dz, dn r;  dh' = dh z
// What gru_cell_grad computes, but each product in the order in which the separate nodes make it,
// so that the results are their bits. f32 only: in other types each separate node rounds what it
// stores.
#include "core/builder.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/operands.h"
#include "ops/recurrent/cells.h"
#include "ops/recurrent/gru.h"
#include "ops/tensors/columns.h"

namespace pal {
namespace {

using enum GruReplay::Operand;

// dx, dy, dh_prev
template <bool kHasGates, bool kHasSum> void run_tiles(const KernelArgs& a) {
  auto one = [&](const CellTile& tile, float(&unread)[7][kTile]) {
    const int64_t at = tile.at(), n = tile.n;
    auto gate = [&](size_t operand, int k) { return a.input(operand) + tile.gate(3, k); };
    auto d_gate = [&](size_t out, int k) {
      return a.out[out] ? a.output(out) + tile.gate(3, k) : unread[3 * out + size_t(k)];
    };
    const float* x[3];
    const float* y[3];
    for (int k = 0; k < 3; ++k) {
      x[k] = kHasGates ? gate(kX, k) : a.input(kR + size_t(k)) + at;
      y[k] = kHasGates ? gate(kY, k) : a.input(kYn) + at;
    }
    const float *xr = x[0], *xz = x[1], *xn = x[2], *yr = y[0], *yz = y[1], *yn = y[2];
    float *dxr = d_gate(0, 0), *dxz = d_gate(0, 1), *dxn = d_gate(0, 2);
    float *dyr = d_gate(1, 0), *dyz = d_gate(1, 1), *dyn = d_gate(1, 2);
    const float *h = a.input(kHPrev) + at, *dh = a.input(kDh) + at;
    const float* sum = kHasSum ? a.input(kSum) + at : dh;
    float* dh_prev = a.out[2] ? a.output(2) + at : unread[6];
    // Element e of the outputs depends on element e of the operands alone.
#pragma omp simd
    for (int64_t e = 0; e < n; ++e) {
      const float y_n = yn[e];
      const float r = kHasGates ? sigmoid(xr[e] + yr[e]) : xr[e];
      const float z = kHasGates ? sigmoid(xz[e] + yz[e]) : xz[e];
      const float n_gate = kHasGates ? tanh(xn[e] + r * y_n) : xn[e];
      const GruReplayGrad::Out d = GruReplayGrad{}(r, z, n_gate, y_n, h[e], dh[e]);
      const float s = sum[e];
      dxr[e] = d.r, dxz[e] = d.z, dxn[e] = d.xn;
      dyr[e] = d.r, dyz[e] = d.z, dyn[e] = d.yn;
      dh_prev[e] = kHasSum ? s + d.h : d.h;
    }
  };
  each_cell_tile<7>(a.queue, a.in_spec[kHPrev].shape, nullptr, 0, one);
}

void run(const KernelArgs& a) {
  with_constants([&](auto gates, auto sum) { run_tiles<gates.value, sum.value>(a); },
                 input_if_present(a, kX) != nullptr, input_if_present(a, kSum) != nullptr);
}

Specs infer(SpecSpan in, const Attrs&) {
  require(in.size() == GruReplay::kOperands, "takes h_prev, dh, x, y, r, z, n, y_n, sum");
  const TensorSpec& h = in[kHPrev];
  require(h.shape.rank() == 2 && h.dtype == DType::f32, h, ": want h_prev (B, H) of f32");
  const TensorSpec gates{{h.shape[0], 3 * h.shape[1]}};
  for (size_t k = kDh; k < GruReplay::kOperands; ++k) {
    const bool whole = k == kX || k == kY, part = k >= kR && k <= kYn;
    require(present(in[k]) ? in[k] == (whole ? gates : plain(h)) : k != kDh, in[k], ": want ",
            whole ? gates : plain(h));
    require(!(whole || part) || present(in[k]) == (whole == present(in[kX])),
            "takes either x and y or what became of all their parts");
  }
  return {gates, gates, plain(h)};
}

// What differs from step to step: whether the activations were stashed or are made again, whether
// h' has a gradient already, and whether anybody wants it.
struct Kind {
  bool has_gates, has_sum, wants_h_prev;
};

FusedPattern pattern_of(const TensorSpec& part, Kind kind) {
  const int64_t H = part.shape[1];
  Builder b;
  std::vector<Val> in(GruReplay::kOperands);
  auto input = [&](size_t k, const char* name) { return in[k] = b.input(name, part); };
  const Val h_prev = input(kHPrev, "h'"), dh = input(kDh, "dh");
  const Val sum = kind.has_sum ? input(kSum, "sum") : Val{};
  Val r, z, n, y_n;
  if (kind.has_gates) {
    const TensorSpec gates{{part.shape[0], 3 * H}};
    in[kX] = b.input("x", gates), in[kY] = b.input("y", gates);
    b.set_phase(Phase::recompute);
    const std::vector<Val> x = split(in[kX], {H, H, H}), y = split(in[kY], {H, H, H});
    r = sigmoid(add(x[0], y[0])), z = sigmoid(add(x[1], y[1]));
    y_n = y[2];
    n = tanh(add(x[2], mul(r, y_n)));
  } else {
    r = input(kR, "r"), z = input(kZ, "z"), n = input(kN, "n"), y_n = input(kYn, "y_n");
  }
  b.set_phase(Phase::forward);  // kept or made again: h' and n are there in any case
  const Val change = sub(h_prev, n);
  b.set_phase(Phase::backward);
  const Val dz = mul(dh, change), through_h = mul(dh, z);
  const Val dh_prev = sum ? add(sum, through_h) : through_h;
  const Val dn = b.emit1(tanh_grad_op, {add(dh, scale(through_h, -1)), n});
  const Val dr = mul(dn, y_n), dyn = mul(dn, r);
  const Val dz_in = b.emit1(sigmoid_grad_op, {dz, z}), dr_in = b.emit1(sigmoid_grad_op, {dr, r});
  auto laid_down = [&](Val last) {
    const Val d = slice_columns_grad(dz_in, slice_columns_grad(last, {}, 3 * H, 2 * H), 3 * H, H);
    return slice_columns_grad(dr_in, d, 3 * H, 0);
  };
  const Val dy = laid_down(dyn), dx = laid_down(dn);
  FusedPattern pattern{.program = b.take(),
                       .out = {dx.id, dy.id, kind.wants_h_prev ? dh_prev.id : kNone}};
  for (Val v : in) pattern.in.push_back(v.id);
  return pattern;
}

// Around the node that lays down the reset gate's gradient, the last.
std::vector<FusedPattern> patterns(SpecSpan in, const Attrs& attrs) {
  if (!lays_first_gate(in, attrs, 3)) return {};
  std::vector<FusedPattern> out;
  for (const bool has_gates : {true, false}) {
    for (const Kind kind : {Kind{has_gates, true, true}, Kind{has_gates, false, true},
                            Kind{has_gates, false, false}}) {
      out.push_back(pattern_of(in[0], kind));
    }
  }
  return out;
}

}  // namespace

const Rewrite gru_replay_rewrite{
    .op = &gru_cell_replay_grad_op, .anchor = &slice_columns_grad_op, .patterns = patterns};

const OpDef gru_cell_replay_grad_op{
    .name = "gru_cell_replay_grad",
    .formula = "d(x, y, h') of gru_cell_unfused, activations computed again",
    .infer = infer,
    .optional_from = kX,
    .shares = {{0, kX}, {1, kY}, {2, kSum}, {2, kHPrev}, {2, kDh}, {2, kN}},
    .cost =
        [](SpecSpan in, SpecSpan out, const Attrs&) {
          return streaming_cost((present(in[kX]) ? 90.0 : 30.0) * double(in[0].numel()), in, out);
        },
    .cpu = {.run = run},
    .cuda = &gru_cell_replay_grad_cuda,
    .examples = {{.operands = cell_operands("ssgg----s", 3, 3, 5)},
                 {.operands = cell_operands("ssgg----s", 3, 9, 540)},
                 {.operands = cell_operands("ssgg-----", 3, 5, 17)},
                 {.operands = cell_operands("ss--ssss-", 3, 3, 5)},
                 {.operands = cell_operands("ss--sssss", 3, 9, 540)},
                 {.operands = cell_operands("ssgg-----", 3, 5, 17), .unread = {1, 0, 1}}},
};

}  // namespace pal
