// Multi-tensor updates and sums of squares: one node for a run of adjacent ones.
#pragma once
#include <optional>
#include <string>

#include "core/program.h"

namespace pal {

// Replaces runs of adjacent nodes with the same operator and attributes by one node with
// the operands of all (OpDef::arity); nothing where there is no run. Nodes of a run must not depend
// on each other. Same bits: the kernel does for each group what it does for one. `note` says how
// many nodes became how many.
std::optional<Program> fuse_updates(const Program& program, std::string* note = nullptr);

}  // namespace pal
