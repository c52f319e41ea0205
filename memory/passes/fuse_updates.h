// Multi-tensor updates: one node for a run of adjacent ones.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/program.h"

namespace pal {

// Replaces runs of adjacent updates with the same operator and attributes by one node with the
// operands of all (OpDef::arity), unless that raises the peak. Nodes of a run must not depend on
// each other. Same bits: the kernel does for each group what it does for one. `note` says how many
// nodes became how many. `workspace_bytes` by node; empty: none.
Program fuse_updates(const Program& program, std::string* note = nullptr,
                     std::span<const int64_t> workspace_bytes = {});

}  // namespace pal
