// Passes that permute nodes to lower the peak (OLLA, section 3).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "core/program.h"
#include "memory/storages/storages.h"

namespace pal {

enum class Schedule : uint8_t {
  program,   // as recorded
  lifetime,  // the best of several list schedules, then local moves at the peak
  exact,     // the order of least peak where the program is small, else as lifetime
};
constexpr auto names(Schedule) { return std::array{"program", "lifetime", "exact"}; }

const char* to_string(Schedule method);

// The program in an order of lower peak, where one is found; the program itself where not. What is
// compared is the true peak, after storages have been assigned with `options`. Nodes only change
// places, and sums are chains of nodes, so results are the same bits. Recomputed nodes stay right
// before the first node that needs them (but for exact). `workspace_bytes` by node; empty: none.
// `note` says which order won, what was moved, and when no update can come early, which gate
// forbids it: "early updates blocked by clip_norm". `peak` is the result's.
Program schedule(const Program& program, Schedule method, std::string* note = nullptr,
                 const ByNode<int64_t>& workspace_bytes = {}, const StorageOptions& options = {},
                 int64_t* peak = nullptr);

// Moves updates, and what only stands between weight gradients and updates (clipping by value,
// norms), as early as their operands, the loss, and the readers of the old state allow, so that
// gradients die young (OLLA, section 4.3). Everything else keeps its order. The result's peak is
// never above the program's: where it would be, the program comes back unchanged. `note` says what
// happened, as above; `peak` is the result's.
Program schedule_early_updates(const Program& program, std::string* note = nullptr,
                               const ByNode<int64_t>& workspace_bytes = {},
                               const StorageOptions& options = {}, int64_t* peak = nullptr);

}  // namespace pal
