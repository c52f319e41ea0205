// What compile() is asked for, and what it answers.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/prepare.h"
#include "core/program.h"
#include "memory/dynamic/options.h"
#include "memory/passes/map_forms.h"
#include "memory/plan/plan.h"
#include "memory/price/baselines.h"
#include "memory/price/gist_baseline.h"
#include "memory/price/predict.h"
#include "memory/price/traffic.h"
#include "memory/recompute/recompute.h"
#include "memory/schedule/schedule.h"
#include "memory/storages/storages.h"
#include "memory/swap/options.h"

namespace pal {

struct CompileOptions {
  bool inplace = true;  // memory.inplace
  bool windows = true;  // views and stacks share bytes; off only to measure what that saves
  Recompute recompute = Recompute::none;  // memory.recompute
  RecomputeOptions recompute_options = {};
  bool fuse_recompute = true;              // memory.fuse_recompute: where there is recomputation
  bool fuse_epilogues = true;              // memory.fuse_epilogues
  Encodings encode;                        // memory.encode, memory.dpr_layers
  Schedule schedule = Schedule::lifetime;  // memory.schedule
  SwapOptions swap;                        // memory.swap, memory.vdnn
  DynamicOptions dynamic;                  // memory.manager and what belongs to it; needs a budget
  std::optional<int64_t> host_budget;  // bytes of the host's memory for copies; none: all it takes
  bool fuse_updates = true;
  bool late_updates = true;                        // they wait for each other, to be fused
  PlaceEffort place_effort = {.bytes_a_node = 4};  // the whole of it from 1.2 MB on
  // Operands reordered to what kernels prefer, shared by readers; where the step runs here.
  bool layouts = true;
  std::optional<int64_t> budget;  // bytes of the whole device footprint, state included
  bool must_fit = true;           // a plan over the budget is an error, not merely to be avoided
  std::optional<DeviceProfile> profile;  // prices the passes and the step; none: no times
  // The device of a rank, with links: exchanges get a queue of their own where that is faster
  // there; none: they stay among the computation.
  std::optional<DeviceProfile> exchange_device;
  // The card that the step runs on: branches that do not depend on each other get a second queue
  // where that is faster there (memory/branch_queue.h); none: one queue.
  std::optional<DeviceProfile> branch_device;
  // What these queues may bring the plan to, where passes are not to go by it; none: the budget.
  std::optional<int64_t> queue_budget;
  bool maps_alone = false;  // bytes are those of maps alone; for plan_maps_alone(), which sets it
};

// One line of effect. Bytes are the device's footprint: live bytes at the peak until placement, the
// arena after it.
struct PassReport {
  std::string name;
  int64_t before_bytes = 0, after_bytes = 0;
  double seconds = 0;
  std::string note;
  double added_ms = 0;  // predicted cost to the step
  bool trades =
      false;  // pays for bytes with time: recomputation, what is folded into it, encodings, copies
};

// "inplace: 4.35 GB -> 1.42 GB, +0.46 ms predicted, 41 ms to plan (note)"; defined in
// memory/pass.cc.
std::string to_string(const PassReport& report);

struct Compiled {
  Baselines baselines;  // of the program as it was recorded, before any pass
  Encodings encode;     // that were asked for,
  // and, where there are any, why maps stay dense, and what no encoding of maps goes below: of the
  // step as it was recorded.
  DenseReasons dense_maps;
  int64_t floor_bytes = 0;
  std::string floor_layer;  // "features/2 conv2d"
  Program program;
  ByNode<std::shared_ptr<const Kernel>> kernels;
  Storages storages;
  Plan plan;
  std::vector<PassReport> passes;
  std::optional<DynamicStats> dynamic;  // where a dynamic manager decided
  std::optional<Traffic> traffic;       // where bytes go to the host's memory, or a manager decided
  Prediction timeline;                  // where there is traffic: when each node runs
  std::optional<StepTime> time;         // with a profile
  double seconds = 0;
};

}  // namespace pal
