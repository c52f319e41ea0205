// Updates of states row by row: what the micro-batches of an update have left, what the steps of a
// decoder have.
#pragma once
#include "core/op.h"
#include "core/val.h"
#include "ops/tensors/state.h"

namespace pal {

extern const OpDef moving_averages_op, put_row_op;
[[gnu::weak]] extern const Backend moving_averages_cuda, put_row_cuda;

// Updates. `old` is the newest value of a state slot; the result is its next value.
// old (n, ..) with x (..) as row m mod n, where m is the number of the micro-batch in the step's
// scalars, or the one element of an i32 (1).
Val put_row(Val old, Val x, Val number);
// old + momentum (row - old) for one row of (n, ..) after the other, as so many moving_average;
// `old` where there is a gate and it does not let updates apply.
Val moving_averages(Val old, Val rows, float momentum, Val gate = {});

}  // namespace pal
