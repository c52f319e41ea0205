// Keeps bytes in the host's memory while nobody touches them: offloads and reloads, in one logical
// order (memory/passes/assign_queues.h).
//
// naive and vdnn are baselines (Rhu et al. 2016, "vDNN"): which maps leave does not depend on their
// times. `planned` is told how long each node and each copy takes, and which bytes may be on the
// device at most; it simulates what the compute queue and both directions of the link do.
#pragma once
#include <optional>
#include <string>

#include "core/program.h"
#include "memory/price/predict.h"
#include "memory/storages/storages.h"
#include "memory/swap/options.h"
#include "memory/swap/trips.h"

namespace pal {

struct SwapGoal {
  // Bytes on the device, at most, if they can be kept to: no more is copied than that needs. none:
  // as few as cost no time.
  std::optional<int64_t> budget = {};
  std::optional<int64_t> host_budget = {};  // bytes of copies in the host's memory, at most
  DeviceProfile device = {};                // whose times count
  ByNode<int64_t> workspace = {};           // scratch bytes
  StorageOptions storages = {};
};

// Trips of the two baselines.
std::vector<Trip> naive_trips(const Program& program, const std::vector<SwapUnit>& units);
std::vector<Trip> vdnn_trips(const Program& program, const std::vector<SwapUnit>& units,
                             VdnnInputs inputs);

// A lower bound of the step's time within goal.budget, if only copies make room: at each node the
// bytes above the budget have crossed the link before it, and cross it back after it.
double link_bound_ms(const Program& program, const SwapGoal& goal);

// The step with its copies; nothing where none help. The program has one queue. `note`: how many
// bytes leave, and what the copies cost.
std::optional<Program> swapped(const Program& program, const SwapOptions& options,
                               const SwapGoal& goal, std::string* note = nullptr);

}  // namespace pal
