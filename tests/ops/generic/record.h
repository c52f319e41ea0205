// Programs for the gradient check: the operator's node once or more, a loss with random cotangents,
// and what `differentiate` makes of them.
#pragma once
#include <utility>

#include "tests/ops/generic/checks.h"

namespace pal::test {

using Floats = std::vector<float>;

// Which gradients are asked for.
struct Request {
  std::vector<char> through;          // by output: part of the loss
  std::vector<char> wrt;              // by operand
  int readers = 1;                    // nodes that read the operands
  bool start = false;                 // a sum to add to
  int tied_to = kNone, tied = kNone;  // operand `tied` is the same value as operand `tied_to`
};

// The program, and where in it things are.
struct Recorded {
  Program program;
  std::vector<ValueId> in, gradient, start;         // by operand
  std::vector<std::pair<ValueId, size_t>> weights;  // value, output; one reader's after another's
};

Recorded record(const Case& c, const Request& r);

// All float outputs but the statistics, and all differentiable operands.
Request everything(const Case& c, const std::vector<int>& statistics);

// The operators of the loss, which no list of operators holds.
std::span<const OpDef* const> loss_ops();

bool is_float(const TensorSpec& spec);
double rms(const Floats& x);
// Uniform in [-1, 1).
Floats draw_floats(int64_t n, uint64_t seed);
// An output's weights in the loss; those of another reader come from another seed.
Floats weights_of(const Case& c, size_t output, uint64_t reader);

}  // namespace pal::test
