// Operators that only tests need: slow ones, empty ones, and ones that misbehave.
#pragma once
#include <atomic>

#include "core/op.h"
#include "core/val.h"

namespace pal::test {

extern const OpDef bad_value_op, held_copy_op, peek_op, remember_op, signal_op, throwing_op,
    touch_all_op;

// held_copy(x) = x, copied only once *flag is set or so many milliseconds have passed; signal(x) =
// x sets it. A node that fails to wait for a held copy certainly comes too early, however the
// threads are scheduled, when the flag is set by a node after it. `flag` must outlive the runs.
Val held_copy(Val x, std::atomic<bool>* flag, int milliseconds);
Val signal(Val x, std::atomic<bool>* flag);

// A kernel must keep no pointer. remember(x) = x keeps the address of x in *slot; peek(x) reads x
// elements from *slot instead of from x. `slot` must outlive the runs.
Val remember(Val x, const float** slot);
Val peek(Val x, const float** slot);

// x with element `index` replaced by `value`.
Val bad_value(Val x, int64_t index, float value);

// Throws ProgramError("[throwing] as it was told").
Val throwing(Val x);

// x, by a kernel with as many bytes of workspace, all of which it writes.
Val with_workspace(Val x, int64_t bytes);

}  // namespace pal::test
