// Updates of states by the rows that the micro-batches of an update have left.
#pragma once
#include "core/op.h"
#include "core/val.h"
#include "ops/tensors/state.h"

namespace pal {

extern const OpDef moving_averages_op, put_row_op;
[[gnu::weak]] extern const Backend moving_averages_cuda, put_row_cuda;

// Updates. `old` is the newest value of a state slot; the result is its next value.
// old (n, ..) with x (..) as row m mod n, where m is the number of the micro-batch.
Val put_row(Val old, Val x, Val scalars);
// old + momentum (row - old) for one row of (n, ..) after the other, as so many moving_average;
// `old` where there is a gate and it does not let updates apply.
Val moving_averages(Val old, Val rows, float momentum, Val gate = {});

}  // namespace pal
