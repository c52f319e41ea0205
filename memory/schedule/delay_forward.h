// Forward nodes that only a later part of the backward pass waits for run right before that part.
//
// The backward pass begins as soon as the loss's first gradient can be made. Where the loss is a
// sum over runs of rows (model.loss_chunks), the gradient of the last run needs none of the others:
// their logits can wait until the gradients of those before them are done with theirs, so that one
// run's logits live at a time. Each node still reads what it read; only the order changes.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/program.h"

namespace pal {

// The program in the order of demand: a forward node moves down to right before the first backward
// node that waits for it, directly or through other forward nodes; what leads to the program's
// outputs alone (the sum of the losses) runs as soon as its operands are there. No node moves past
// an update. Nothing where no node would move. `note` says how many nodes wait.
std::optional<Program> delay_forward(const Program& program, std::string* note = nullptr);

}  // namespace pal
