// Copies of weights that are made together as the step begins, so that one node makes several
// (memory/passes/fuse_updates.h).
#pragma once
#include <optional>
#include <string>

#include "core/program.h"

namespace pal {

// Forward nodes that may be made together (takes_groups) and read nothing but state as the step
// finds it, moved to where the first of them runs. Nothing where none move.
std::optional<Program> early_copies(const Program& program, std::string* note = nullptr);

}  // namespace pal
