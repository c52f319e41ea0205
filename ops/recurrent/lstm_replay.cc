// The gradient of lstm_cell_unfused in one pass, with what was recomputed for it (slices,
// activations, the new cell state) computed again on the way:
//   i, f, o = sigmoid(gates), g = tanh(gates), c = f c' + i g, t = tanh(c)
//   d = dc + dh o (1 - t^2):  di = d g i (1 - i), df = d c' f (1 - f), dg = d i (1 - g^2),
//   do = dh t o (1 - o), dc' = d f
// What lstm_cell_grad computes, but each product in the order in which the separate nodes make it,
// so that the results are their bits. f32 only: in other types each separate node rounds what it
// stores.
#include "core/builder.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/operands.h"
#include "ops/recurrent/cells.h"
#include "ops/recurrent/lstm.h"
#include "ops/tensors/columns.h"

namespace pal {
namespace {

using enum LstmReplay::Operand;

template <bool kHasGates, bool kHasC, bool kHasDc> void run_tiles(const KernelArgs& a) {
  auto one = [&](const CellTile& tile, float(&unread)[5][kTile]) {
    const int64_t at = tile.at(), n = tile.n;
    auto gate = [&](int k) {
      return kHasGates ? a.input(kGates) + tile.gate(4, k) : a.input(kI + size_t(k)) + at;
    };
    auto d_gate = [&](int k) { return a.out[0] ? a.output(0) + tile.gate(4, k) : unread[k]; };
    const float *i = gate(0), *f = gate(1), *g = gate(2), *o = gate(3);
    float *di = d_gate(0), *df = d_gate(1), *dg = d_gate(2), *d_o = d_gate(3);
    const float *c_prev = a.input(kCPrev) + at, *dh = a.input(kDh) + at;
    const float* c = kHasC ? a.input(kC) + at : c_prev;
    const float* dc = kHasDc ? a.input(kDc) + at : dh;
    float* dc_prev = a.out[1] ? a.output(1) + at : unread[4];
    // Element e of the outputs depends on element e of the operands alone.
#pragma omp simd
    for (int64_t e = 0; e < n; ++e) {
      const LstmReplayGrad::Out y = LstmReplayGrad{kHasC, kHasDc}(
          kHasGates ? sigmoid(i[e]) : i[e], kHasGates ? sigmoid(f[e]) : f[e],
          kHasGates ? tanh(g[e]) : g[e], kHasGates ? sigmoid(o[e]) : o[e], c_prev[e], c[e], dh[e],
          dc[e]);
      di[e] = y.i, df[e] = y.f, dg[e] = y.g, d_o[e] = y.o, dc_prev[e] = y.c_prev;
    }
  };
  each_cell_tile<5>(a.queue, a.in_spec[kCPrev].shape, nullptr, 0, one);
}

void run(const KernelArgs& a) {
  with_constants([&](auto gates, auto c, auto dc) { run_tiles<gates.value, c.value, dc.value>(a); },
                 input_if_present(a, kGates) != nullptr, input_if_present(a, kC) != nullptr,
                 input_if_present(a, kDc) != nullptr);
}

Specs infer(SpecSpan in, const Attrs&) {
  require(in.size() == LstmReplay::kOperands, "takes c_prev, dh, gates, i, f, g, o, c, dc");
  const TensorSpec& c = in[kCPrev];
  require(c.shape.rank() == 2 && c.dtype == DType::f32, c, ": want c_prev (B, H) of f32");
  const TensorSpec gates{{c.shape[0], 4 * c.shape[1]}};
  require(!present(in[kGates]) || in[kGates] == gates, in[kGates], ": want gates ", gates);
  for (size_t k = 1; k < LstmReplay::kOperands; ++k) {
    const bool activation = k >= kI && k <= kO;
    if (k == kGates) continue;
    require(present(in[k]) ? in[k] == c : k != kDh, in[k], ": want it like c_prev ", c);
    require(!activation || present(in[k]) != present(in[kGates]),
            "takes either the gates or what became of all four");
  }
  return {gates, plain(c)};
}

// What differs from step to step: whether the activations were stashed or are made again of the
// gates, whether c is there or was recomputed too, whether a later step gave c a gradient, and
// whether anybody wants that of c_prev.
struct Kind {
  bool has_gates, has_c, has_dc, wants_c_prev;
};

FusedPattern pattern_of(const TensorSpec& part, Kind kind) {
  const int64_t H = part.shape[1];
  Builder b;
  std::vector<Val> in(LstmReplay::kOperands);
  auto input = [&](size_t k, const char* name) { return in[k] = b.input(name, part); };
  const Val c_prev = input(kCPrev, "c'"), dh = input(kDh, "dh");
  const Val dc = kind.has_dc ? input(kDc, "dc") : Val{};
  Val i, f, g, o;
  if (kind.has_gates) {
    in[kGates] = b.input("gates", {{part.shape[0], 4 * H}});
    b.set_phase(Phase::recompute);
    const std::vector<Val> x = split(in[kGates], {H, H, H, H});
    i = sigmoid(x[0]), f = sigmoid(x[1]), g = tanh(x[2]), o = sigmoid(x[3]);
  } else {
    i = input(kI, "i"), f = input(kF, "f"), g = input(kG, "g"), o = input(kO, "o");
    b.set_phase(Phase::recompute);
  }
  const Val c = kind.has_c ? input(kC, "c") : add(mul(f, c_prev), mul(i, g));
  const Val t = tanh(c);
  b.set_phase(Phase::backward);
  const Val d_o = mul(dh, t);
  const Val through_h = b.emit1(tanh_grad_op, {mul(dh, o), t});
  const Val d = kind.has_dc ? add(dc, through_h) : through_h;
  const Val df = mul(d, c_prev), di = mul(d, g), dg = mul(d, i);
  const Val dc_prev = kind.wants_c_prev ? mul(d, f) : Val{};
  Val dgates = slice_columns_grad(b.emit1(sigmoid_grad_op, {d_o, o}), {}, 4 * H, 3 * H);
  dgates = slice_columns_grad(b.emit1(tanh_grad_op, {dg, g}), dgates, 4 * H, 2 * H);
  dgates = slice_columns_grad(b.emit1(sigmoid_grad_op, {df, f}), dgates, 4 * H, H);
  dgates = slice_columns_grad(b.emit1(sigmoid_grad_op, {di, i}), dgates, 4 * H, 0);
  FusedPattern pattern{.program = b.take(), .out = {dgates.id, dc_prev.id}};
  for (Val v : in) pattern.in.push_back(v.id);
  return pattern;
}

// Around the node that lays down the input gate's gradient, the last.
std::vector<FusedPattern> patterns(SpecSpan in, const Attrs& attrs) {
  if (!lays_first_gate(in, attrs, 4)) return {};
  std::vector<FusedPattern> out;
  for (const bool has_gates : {true, false}) {
    for (const bool has_c : {false, true}) {  // a c that was recomputed is made again in the node
      for (const bool has_dc : {true, false}) {
        for (const bool wants_c_prev : {true, false}) {
          out.push_back(pattern_of(in[0], {has_gates, has_c, has_dc, wants_c_prev}));
        }
      }
    }
  }
  return out;
}

}  // namespace

const Rewrite lstm_replay_rewrite{
    .op = &lstm_cell_replay_grad_op, .anchor = &slice_columns_grad_op, .patterns = patterns};

const OpDef lstm_cell_replay_grad_op{
    .name = "lstm_cell_replay_grad",
    .formula = "d(gates, c') of lstm_cell_unfused, activations computed again",
    .infer = infer,
    .optional_from = kGates,
    .shares = {{0, kGates}, {1, kDc}, {1, kCPrev}, {1, kDh}, {1, kC}},
    .cost =
        [](SpecSpan in, SpecSpan out, const Attrs&) {
          return streaming_cost((present(in[kGates]) ? 110.0 : 40.0) * double(in[0].numel()), in,
                                out);
        },
    .cpu = {.run = run},
    .cuda = &lstm_cell_replay_grad_cuda,
    .examples = {{.operands = cell_operands("ssg------", 4, 3, 5)},
                 {.operands = cell_operands("ssg----s-", 4, 3, 5)},
                 {.operands = cell_operands("ssg-----s", 4, 5, 17)},
                 {.operands = cell_operands("ssg----ss", 4, 9, 540)},
                 {.operands = cell_operands("ss-ssss-s", 4, 3, 5)},
                 {.operands = cell_operands("ss-sssss-", 4, 5, 17)}},
};

}  // namespace pal
