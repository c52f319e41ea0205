// Multi-tensor updates: one node for a run of adjacent ones.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/program.h"

namespace pal {

// Replaces runs of adjacent updates with the same operator and attributes by one node of its
// batched form (OpDef::batched), unless that raises the peak. Nodes of a run must not depend on
// each other. Same bits: the batched kernel does for each group what the single one does. `note`
// says how many nodes became how many. `workspace_bytes` by node; empty: none.
Program fuse_updates(const Program& program, std::string* note = nullptr,
                     std::span<const int64_t> workspace_bytes = {});

}  // namespace pal
