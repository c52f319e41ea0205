// Connectionist temporal classification (Graves et al. 2006): the loss of a sequence of labels
// whose alignment with the steps of the input is not known.
#pragma once
#include "core/op.h"
#include "core/val.h"
#include "ops/kernels/math.h"

namespace pal {

extern const OpDef ctc_loss_grad_op, ctc_loss_op;
[[gnu::weak]] extern const Backend ctc_loss_grad_cuda, ctc_loss_cuda;

struct CtcAttrs {
  int64_t blank = 0;
  // Whether a sequence that its input is too short for counts nothing, instead of making the loss
  // infinite and its gradient NaN.
  bool zero_infinity = false;
  auto fields() const {
    return std::tuple{field("blank", blank), field("zero_infinity", zero_infinity)};
  }
};

struct CtcOperands {
  Val logits;         // (T, B, V), read in f32
  Val labels;         // i32 (L, B), none of them blank; what is beyond a sequence's end is not read
  Val steps;          // i32 (B): of each input, at most T
  Val label_lengths;  // i32 (B), at most L
  Val scalars;        // the step's
};

struct CtcLoss {
  Val loss;   // f32[1]: the sum of nll / scalars.tokens
  Val nll;    // f32 (B): -log P(labels | logits) in nats; no gradient goes through it
  Val lse;    // f32 (T, B): log sum exp of each step's logits
  Val alpha;  // f32 (T, B, 2L + 1): log probability of every beginning of the labels with blanks
              // between, less the largest of its step
};

// P = the sum over all alignments of the product of softmax(logits[t])[label or blank]. A sequence
// of no steps and no labels has P = 1, so rows that only fill a batch count nothing.
CtcLoss ctc_loss(const CtcOperands& operands, CtcAttrs attrs = {});

// ---- what the kernels of all devices share ----

// Log 0, so that no infinity meets another; and below what a log of a probability may come to.
constexpr float kCtcNever = -1e30f, kCtcAlmostNever = -1e29f;

// Log sum of exp of three, one of them above kCtcNever or all of them kCtcNever.
[[gnu::always_inline]] PAL_HD inline float ctc_log_sum(float a, float b, float c) {
  const float ab = choose(a > b, a, b), top = choose(ab > c, ab, c);
  return top + log(exp(a - top) + exp(b - top) + exp(c - top));
}

// One sequence of the batch: its labels with blanks between and around them are the states that a
// path goes through, 2 L + 1.
struct CtcSequence {
  int64_t b, batch, width, steps, states, most_states;
  int64_t blank;
  const int32_t* labels;  // of this sequence, `batch` apart

  PAL_HD int64_t symbol(int64_t s) const { return s % 2 ? labels[s / 2 * batch] : blank; }
  // Whether a path may go from s - 2 to s.
  PAL_HD bool jumps(int64_t s) const { return s % 2 && s > 1 && symbol(s) != symbol(s - 2); }
  PAL_HD int64_t row(int64_t t) const { return t * batch + b; }
};

}  // namespace pal
