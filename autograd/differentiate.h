// Reverse mode on programs: appends the gradient nodes of a recorded forward pass.
#pragma once
#include <vector>

#include "core/builder.h"

namespace pal {

// Walks the nodes backwards from `loss` (f32[1]) and appends their gradients in the backward phase.
// Returns d loss / d wrt[i], null where the loss does not depend on it. A value read several times
// gets its gradient by accumulation in reverse order of reading, through the operators' own forms
// where they have them, so the order of summation is the program's and no pass changes it.
//
// `start[i]`, where given, is a sum that wrt[i]'s gradient is added to (gradient accumulation over
// micro-batches). Weights' gradients get the role weight_gradient.
std::vector<Val> differentiate(Builder& builder, Val loss, const std::vector<Val>& wrt,
                               const std::vector<Val>& start = {});

}  // namespace pal
