// What a report of a plan is told beside the plan.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "memory/passes/batch_parts.h"

namespace pal {

struct Front;       // memory/front/pool.h
struct FrontPoint;  // likewise

// train.overlap_micro_batches: two micro-batches of an update side by side.
struct PairFacts {
  std::string micro_batches;  // "first+last"
  std::string line;           // for people
  std::string why_not;  // why they run one behind the other; "": they do not, and the rest is known
  int64_t bytes = 0;    // of both
  int64_t larger_bytes = 0;  // of the larger one alone, alive at its peak
  double begins_after = 0;   // the second, [0, 1): the part of the first that has run
  // Predicted: of both, of both one behind the other, of any way to run them.
  double ms = 0, one_by_one_ms = 0, least_ms = 0;
};

// What the answer to a search costs, where plans are chosen from a budget.
struct AnswerCost {
  double step_ms = 0, overhead = 0;  // predicted; of the step as it was recorded
  std::string from, recording;       // "": as it was recorded; as configured
};

// What several devices that train together cost (pal plan --devices). Predicted, of the step that
// is planned.
struct DeviceFacts {
  int64_t ranks = 1, per_node = 1;
  std::string link;
  double communication_ms = 0,
         exposed_ms = 0;  // of all exchanges; of them, with nothing else to do
  double link_bytes = 0;  // that a rank sends
  int64_t bytes_per_rank = 0;
  int64_t nccl_bytes = 0;  // assumed: what NCCL takes of each device's memory beside the plan
  std::optional<double> joules = {};  // of all devices; none: the profile knows no watts
  // Samples a second over those of one device that exchanges nothing.
  double speedup = 1;
};

// What a plan does not know of itself.
struct PlanFacts {
  std::optional<int64_t> capacity = {};  // bytes that the step should fit; none: any
  int64_t samples = 0;  // of the planned program's batch, on all ranks; 0: not known
  // Of sparse maps: the run that measured their densities; "": they are assumed, or nothing is
  // sparse.
  std::string densities_from = {};
  // What the step takes without sparse maps, which a run begins with and falls back on; and whether
  // it recomputes to keep to the budget.
  std::optional<int64_t> dense_bytes = {};
  bool dense_recomputes = false;
  // What it would take with sparse maps, where a run keeps none: over the budget, or not a
  // per cent less.
  std::optional<int64_t> sparse_bytes = {};
  // Where the plan was chosen from a front: it, and the point; null: of none.
  const Front* front = nullptr;
  const FrontPoint* chosen = nullptr;
  std::optional<BatchParts> batch_parts = {};  // of train.batch_parts, where that is not 1
  std::optional<PairFacts> pair = {};          // where micro-batches are overlapped
  std::optional<int64_t> max_batch = {}, max_depth = {};  // where asked for; 0: nothing fits
  std::optional<int64_t> max_length = {};                 // likewise
  std::optional<AnswerCost> answer = {};                  // of the last of them
  std::optional<DeviceFacts> devices = {};                // where there are several
};

}  // namespace pal
