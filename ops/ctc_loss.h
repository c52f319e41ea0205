// Connectionist temporal classification (Graves et al. 2006): the loss of a sequence of labels
// whose alignment with the steps of the input is not known.
#pragma once
#include "core/op.h"

namespace pal {

extern const OpDef ctc_loss_grad_op, ctc_loss_op;

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
  Val logits;         // f32 (T, B, V)
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

}  // namespace pal
