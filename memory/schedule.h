// Passes that permute nodes (OLLA, section 3).
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/program.h"

namespace pal {

// Moves updates, and what only stands between weight gradients and updates (clipping by value, norms),
// as early as their operands, the loss, and the readers of the old state allow, so that gradients die
// young. Everything else keeps its order. The result's peak is never above the program's: where it
// would be, and for programs with several queues, the program comes back unchanged. `note` says what
// happened: "12 updates moved", or "early updates blocked by clip_norm" when a gate forbids it.
// `workspace_bytes` by node; empty: none.
Program schedule_early_updates(const Program& program, std::string* note = nullptr,
                               std::span<const int64_t> workspace_bytes = {});

}  // namespace pal
