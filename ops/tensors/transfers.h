// Values moved between the device and host memory, and to other bytes of the device.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef copy_in_op, copy_out_op, move_op, step_scalars_op;
[[gnu::weak]] extern const Backend copy_in_cuda, copy_out_cuda, move_cuda, step_scalars_cuda;

// The same bytes in host memory (recorded in phase offload), and back (in phase reload).
Val copy_out(Val x);
Val copy_in(Val x);

// The step's scalars (core/scalars.h) on the device, from the host's; the first node of a step.
Val step_scalars(Val host);

}  // namespace pal
