// With l' the labels with blanks around and between them (S = 2 L + 1), y[t,s] = log p_t(l'_s), and
// a jump over a blank where l'_s differs from l'_(s-2) (Graves et al. 2006, section 4.1):
//   alpha[t,s] = y[t,s] + log sum of exp(alpha[t-1, s], alpha[t-1, s-1], alpha[t-1, s-2] if a jump)
//   beta[t,s]  = log sum of exp(y + beta of [t+1, s], [t+1, s+1], [t+1, s+2] if a jump)
//   nll = -log sum of exp(alpha of the last step's last two)
//   dlogits[t,v] = dloss / tokens (softmax_t(v) - sum of gamma[t,s] over s with l'_s = v)
// gamma[t] is the softmax of alpha[t] + beta[t] over s: normalised step by step, it needs no nll,
// and alpha and beta may be kept less their largest, in f32, however long the sequence; what is
// taken off is added up in double. kCtcNever stands for log 0, so that no infinity meets another.
#include "ops/losses/ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/gradient.h"
#include "core/scalars.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/row_tiles.h"
#include "ops/kernels/rows.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

constexpr int64_t kBefore =
    2;  // cells of kCtcNever on either side of a row of s, for s - 2 and s + 2

// Floats of workspace that a sequence needs: y, alpha or beta with its margins, the jumps.
int64_t row_floats(int64_t states) { return states + 2 * kBefore; }
int64_t sequence_floats(int64_t states) { return 3 * row_floats(states); }

// y[s] = log p of the state's symbol.
void fill_y(const CtcSequence& q, const float* logits, float lse, float* y) {
  for (int64_t s = 0; s < q.states; ++s) y[s] = logits[q.symbol(s)] - lse;
}

// 0 where a path may jump onto s from s - 2, else kCtcNever.
void fill_jumps(const CtcSequence& q, float* jump) {
  for (int64_t s = 0; s < q.states; ++s) jump[s] = q.jumps(s) ? 0 : kCtcNever;
}

// Takes the largest off a row, and returns it; leaves a row of kCtcNever alone.
float normalise(float* x, int64_t n) {
  const float most = max_of_row(x, DType::f32, 0, n, nullptr);
  if (!(most > kCtcAlmostNever)) return 0;
#pragma omp simd
  for (int64_t s = 0; s < n; ++s) x[s] = choose(x[s] > kCtcAlmostNever, x[s] - most, kCtcNever);
  return most;
}

// The sequence's -log P; its alpha goes to `alpha` (T, B, most_states) and its lse to `lse`.
double forward(const CtcSequence& q, const float* logits, float* lse, float* alpha, float* space) {
  float* y = space;
  float* a = y + row_floats(q.most_states) + kBefore;
  float* jump = a + row_floats(q.most_states);
  std::fill(a - kBefore, a + q.states, kCtcNever);
  fill_jumps(q, jump);
  double taken = 0;
  for (int64_t t = 0; t < q.steps; ++t) {
    const float* x = logits + q.row(t) * q.width;
    const float norm = log_sum_exp_of_row(x, DType::f32, 0, q.width, nullptr);
    if (lse) lse[q.row(t)] = norm;
    fill_y(q, x, norm, y);
    float* to = alpha + q.row(t) * q.most_states;
    if (t == 0) {
      std::fill(to, to + q.states, kCtcNever);
      for (int64_t s = 0; s < std::min<int64_t>(q.states, 2); ++s) to[s] = y[s];
    } else {
#pragma omp simd
      for (int64_t s = 0; s < q.states; ++s) {
        to[s] = y[s] + ctc_log_sum(a[s], a[s - 1], a[s - 2] + jump[s]);
      }
    }
    taken += double(normalise(to, q.states));
    std::copy(to, to + q.states, a);
  }
  if (q.steps == 0) return q.states == 1 ? 0 : std::numeric_limits<double>::infinity();
  const float last = a[q.states - 1], before = q.states > 1 ? a[q.states - 2] : kCtcNever;
  if (last <= kCtcAlmostNever && before <= kCtcAlmostNever) {
    return std::numeric_limits<double>::infinity();
  }
  return -taken - double(ctc_log_sum(last, before, kCtcNever));
}

// Writes dx of all steps of the sequence; `factor` is dloss / tokens.
void backward(const CtcSequence& q, const float* logits, const float* lse, const float* alpha,
              float factor, float* dx, float* space) {
  float* y = space;  // of step t + 1, plus beta: what flows back
  float* beta = y + row_floats(q.most_states) + kBefore;
  float* jump = beta + row_floats(q.most_states);
  fill_jumps(q, jump);
  std::fill(jump + q.states, jump + q.states + kBefore, kCtcNever);
  std::fill(y, y + q.states + kBefore, kCtcNever);
  std::fill(beta, beta + q.states, kCtcNever);
  for (int64_t s = std::max<int64_t>(0, q.states - 2); s < q.states; ++s) beta[s] = 0;
  for (int64_t t = q.steps; t-- > 0;) {
    if (t + 1 < q.steps) {
#pragma omp simd
      for (int64_t s = 0; s < q.states; ++s) {
        beta[s] = ctc_log_sum(y[s], y[s + 1], y[s + 2] + jump[s + 2]);
      }
      (void)normalise(beta, q.states);
    }
    const float* x = logits + q.row(t) * q.width;
    const float norm = lse[q.row(t)];
    fill_y(q, x, norm, y);  // before dx, which may lie over the logits, is written
    float* to = dx + q.row(t) * q.width;
#pragma omp simd
    for (int64_t v = 0; v < q.width; ++v) to[v] = factor * exp(x[v] - norm);
    const float* a = alpha + q.row(t) * q.most_states;
    LaneMax top;
    top.add(q.states, [&](int64_t s) { return a[s] + beta[s]; });
    const float most = top.total();
    const float sum = row_sum(q.states, [&](int64_t s) { return exp(a[s] + beta[s] - most); });
    for (int64_t s = 0; s < q.states; ++s) {
      to[q.symbol(s)] -= factor * (exp(a[s] + beta[s] - most) / sum);
    }
#pragma omp simd
    for (int64_t s = 0; s < q.states; ++s) y[s] += beta[s];
  }
}

// Operands as the kernels have them from `first` on: labels, steps, label_lengths, scalars.
CtcSequence sequence_of(const KernelArgs& a, int64_t b, const Shape& logits, size_t first) {
  const int64_t batch = logits[1], longest = a.in_spec[first].shape[0];
  const int32_t* labels = a.input<int32_t>(first) + b;
  const int64_t steps = a.input<int32_t>(first + 1)[b], length = a.input<int32_t>(first + 2)[b];
  return {.b = b,
          .batch = batch,
          .width = logits[2],
          .steps = steps,
          .states = 2 * length + 1,
          .most_states = 2 * longest + 1,
          .blank = a.attrs.as<CtcAttrs>().blank,
          .labels = labels};
}

void check_values(const KernelArgs& a) {
  const Shape& logits = a.in_spec[0].shape;
  const auto& attrs = a.attrs.as<CtcAttrs>();
  for (int64_t b = 0; b < logits[1]; ++b) {
    const int64_t steps = a.input<int32_t>(2)[b], length = a.input<int32_t>(3)[b];
    const std::string which = "sequence " + std::to_string(b) + " has ";
    if (steps < 0 || steps > logits[0] || length < 0 || length > a.in_spec[1].shape[0]) {
      require(false, "ctc_loss",
              which + std::to_string(steps) + " steps of " + std::to_string(logits[0]) + " and " +
                  std::to_string(length) + " labels of " + std::to_string(a.in_spec[1].shape[0]));
    }
    for (int64_t i = 0; i < length; ++i) {
      const int64_t label = a.input<int32_t>(1)[i * logits[1] + b];
      if (label < 0 || label >= logits[2] || label == attrs.blank) {
        require(false, "ctc_loss",
                which + "label " + std::to_string(label) + " of " + std::to_string(logits[2]) +
                    ", blank " + std::to_string(attrs.blank));
      }
    }
  }
}

// Doubles of every sequence's nll, then its rows.
Prepared prepare(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t batch = in[0].shape[1], states = 2 * in[1].shape[0] + 1;
  return {.workspace = batch * (8 + 4 * (sequence_floats(states) + in[0].shape[0] * states))};
}

// logits, labels, steps, label_lengths, scalars -> loss, nll, lse, alpha
void run(const KernelArgs& a) {
  check_values(a);
  const Shape& shape = a.in_spec[0].shape;
  const int64_t T = shape[0], B = shape[1], states = 2 * a.in_spec[1].shape[0] + 1;
  auto* nll = reinterpret_cast<double*>(a.workspace);
  auto* rows = reinterpret_cast<float*>(nll + B);
  float* own_alpha = rows + B * sequence_floats(states);
  parallel_chunks(a.queue, B, 1, [&](int64_t b, int64_t) {
    const CtcSequence q = sequence_of(a, b, shape, 1);
    float *lse = a.output(2), *alpha = a.output(3);
    nll[b] =
        forward(q, a.input(0), lse, alpha ? alpha : own_alpha, rows + b * sequence_floats(states));
    for (int64_t t = 0; t < T; ++t) {  // what no sequence has
      if (lse && t >= q.steps) lse[q.row(t)] = 0;
      if (alpha) {
        float* row = alpha + q.row(t) * states;
        std::fill(row + (t < q.steps ? q.states : 0), row + states, 0.0f);
      }
    }
  });
  const bool zero_infinity = a.attrs.as<CtcAttrs>().zero_infinity;
  const double total = tree_sum(B, [&](int64_t b) {
    if (a.out[1]) a.output(1)[b] = float(nll[b]);
    return zero_infinity && std::isinf(nll[b]) ? 0 : nll[b];
  });
  if (a.out[0]) *a.output(0) = float(total / double(as_scalars(a.in[4]).tokens));
}

Prepared prepare_grad(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t batch = in[1].shape[1], states = 2 * in[5].shape[0] + 1;
  return {.workspace = batch * 4 * sequence_floats(states)};
}

// dloss, logits, nll, lse, alpha, labels, steps, label_lengths, scalars -> dlogits
void run_grad(const KernelArgs& a) {
  const Shape& shape = a.in_spec[1].shape;
  const int64_t T = shape[0], B = shape[1], states = 2 * a.in_spec[5].shape[0] + 1;
  auto* rows = reinterpret_cast<float*>(a.workspace);
  const float factor = *a.input(0) / as_scalars(a.in[8]).tokens;
  const bool zero_infinity = a.attrs.as<CtcAttrs>().zero_infinity;
  parallel_chunks(a.queue, B, 1, [&](int64_t b, int64_t) {
    const CtcSequence q = sequence_of(a, b, shape, 5);
    const bool impossible = std::isinf(a.input(2)[b]);
    if (!impossible) {
      backward(q, a.input(1), a.input(3), a.input(4), factor, a.output(0),
               rows + b * sequence_floats(states));
    }
    const float rest = impossible && !zero_infinity ? std::numeric_limits<float>::quiet_NaN() : 0;
    for (int64_t t = impossible ? 0 : q.steps; t < T; ++t) {
      float* row = a.output(0) + q.row(t) * q.width;
      std::fill(row, row + q.width, t < q.steps ? rest : 0);
    }
  });
}

void check(const TensorSpec& logits, SpecSpan rest, const Attrs& attrs) {
  require(logits.shape.rank() == 3 && logits.dtype == DType::f32 && !logits.layout &&
              logits.numel() > 0 && rest[0].dtype == DType::i32 && rest[0].shape.rank() == 2 &&
              rest[0].shape[0] > 0 && rest[0].shape[1] == logits.shape[1],
          logits, ", ", rest[0], ": want logits f32 (T, B, V) and labels i32 (L, B)");
  const TensorSpec lengths{{logits.shape[1]}, DType::i32};
  require(rest[1] == lengths && rest[2] == lengths, rest[1], ", ", rest[2],
          ": want steps and label_lengths i32[B]");
  require(rest[3] == scalars_spec(), rest[3], ": want the step's scalars, ", scalars_spec());
  const int64_t blank = attrs.as<CtcAttrs>().blank;
  require(blank >= 0 && blank < logits.shape[2], "blank is ", blank, " of ", logits.shape[2]);
}

// What the forward node leaves for its gradient, from nll on.
Specs stashed(const TensorSpec& logits, const TensorSpec& labels) {
  const int64_t T = logits.shape[0], B = logits.shape[1];
  return {{{B}}, {{T, B}}, {{T, B, 2 * labels.shape[0] + 1}}};
}

Cost cost(double of_state, const TensorSpec& logits, const TensorSpec& labels, double bytes) {
  const double cells = double(logits.shape[0] * logits.shape[1]) * double(2 * labels.shape[0] + 1);
  return {of_state * cells + 22.0 * double(logits.numel()), bytes};
}

ExampleOperand ints(Shape shape, float lo, float hi) { return example(shape, DType::i32, lo, hi); }

std::vector<Example> examples() {
  auto one = [](int64_t T, int64_t B, int64_t V, int64_t L, int64_t shortest, CtcAttrs attrs) {
    const float first = attrs.blank == 0 ? 1 : 0;
    return Example{.operands = {example({T, B, V}), ints({L, B}, first, float(V) - 2 + first),
                                ints({B}, float(shortest), float(T)), ints({B}, 0, float(L)),
                                step_scalars_example()},
                   .attrs = attrs};
  };
  std::vector<Example> all = {one(5, 2, 4, 2, 5, {}), one(9, 3, 5, 3, 7, {.zero_infinity = true}),
                              one(12, 4, 3, 5, 11, {.blank = 2}), one(60, 3, 70, 20, 50, {})};
  all.push_back(one(5, 2, 4, 2, 5, {}));
  all.back().unread = {0, 0, 1, 1};
  return all;
}

std::vector<Example> grad_examples() {
  auto one = [](int64_t T, int64_t B, int64_t V, int64_t L, CtcAttrs attrs) {
    return Example{.operands = {example({1}), example({T, B, V}), example({B}, DType::f32, 1, 9),
                                example({T, B}, DType::f32, 2, 4),
                                example({T, B, 2 * L + 1}, DType::f32, -5, 0),
                                ints({L, B}, 1, float(V) - 1), ints({B}, float(T) / 2, float(T)),
                                ints({B}, 0, float(L)), step_scalars_example()},
                   .attrs = attrs};
  };
  return {one(5, 2, 4, 2, {}), one(9, 3, 5, 3, {.zero_infinity = true}), one(60, 3, 70, 20, {})};
}

}  // namespace

const OpDef ctc_loss_op{
    .name = "ctc_loss",
    .formula = "sum_b -log sum over alignments of prod_t softmax(x[t,b]) / tokens",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(in.size() == 5, "takes logits, labels, steps, label_lengths, scalars");
      check(in[0], in.subspan(1), attrs);
      Specs out = stashed(in[0], in[1]);
      out.insert(out.begin(), TensorSpec{Shape{1}});
      return out;
    },
    .gradient =
        [](GradientArgs& g) {
          if (!g.dy() || !g.wants(0)) return;
          g.give(0, g.builder.emit1(ctc_loss_grad_op,
                                    {g.dy(), g.in(0), g.out(1), g.out(2), g.out(3), g.in(1),
                                     g.in(2), g.in(3), g.in(4)},
                                    g.node.attrs));
        },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return cost(90, in[0], in[1], double(in[0].bytes() + out[3].bytes()));
    },
    .cpu = {.run = run, .prepare = prepare},
    .cuda = &ctc_loss_cuda,
    .examples = examples(),
};

const OpDef ctc_loss_grad_op{
    .name = "ctc_loss_grad",
    .formula =
        "dloss / tokens (softmax(x[t,b]) - how likely each symbol is at t, given the labels)",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require(in.size() == 9,
              "takes dloss, logits, nll, lse, alpha, labels, steps, label_lengths, scalars");
      check(in[1], in.subspan(5), attrs);
      const Specs kept = stashed(in[1], in[5]);
      require(
          in[0] == TensorSpec{Shape{1}} && in[2] == kept[0] && in[3] == kept[1] && in[4] == kept[2],
          in[0], ", ", in[2], ", ", in[3], ", ", in[4],
          ": want dloss f32[1] and what ctc_loss leaves");
      return {in[1]};
    },
    .shares = {{0, 1}},
    .reads = [](int operand, const Attrs&) -> Reads {
      return operand == 1 ? reads_exact() : reads_values();
    },
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      return cost(150, in[1], in[5], double(2 * in[1].bytes() + in[4].bytes()));
    },
    .cpu = {.run = run_grad, .prepare = prepare_grad},
    .cuda = &ctc_loss_grad_cuda,
    .examples = grad_examples(),
};

CtcLoss ctc_loss(const CtcOperands& o, CtcAttrs attrs) {
  Builder& builder = *o.logits.builder;
  const Val logits = cast(o.logits, DType::f32);
  auto out =
      builder.emit(ctc_loss_op, {logits, o.labels, o.steps, o.label_lengths, o.scalars}, attrs);
  for (size_t i : {1, 2, 3}) builder.program().value(out[i].id).role = Role::statistic;
  return {out[0], out[1], out[2], out[3]};
}

}  // namespace pal
