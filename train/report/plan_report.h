// A compiled step as people and programs read it: bytes by role and layer, what each pass did.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory/run/program_set.h"

namespace pal {

// What a plan does not know of itself.
struct PlanFacts {
  std::optional<int64_t> capacity = {};  // bytes that the step should fit; none: any
  int64_t samples = 0;                   // of the planned program's batch; 0: not known
  // Of sparse maps: the run that measured their densities; "": they are assumed, or nothing is
  // sparse.
  std::string densities_from = {};
  // What the step takes without sparse maps, which a run begins with and falls back on; and whether
  // it recomputes to keep to the budget.
  std::optional<int64_t> dense_bytes = {};
  bool dense_recomputes = false;
  std::optional<int64_t> max_batch = {}, max_depth = {};  // where asked for; 0: nothing fits
};

// The object of `pal plan --json` and plan.json, on one line.
std::string plan_json(const Executable& step, std::pair<int64_t, int64_t> bucket);
std::string plan_json(const Compiled& step, std::pair<int64_t, int64_t> bucket,
                      const PlanFacts& facts = {});
// The same at a glance: a few lines for a terminal.
std::vector<std::string> plan_lines(const Executable& step);
std::vector<std::string> plan_lines(const Compiled& step, const PlanFacts& facts = {});
// "time (predicted, RTX 2080 Ti): 95 ms a step, +8.4 % echo, 1,347 samples/s"; empty without a
// time.
std::string time_line(const Compiled& step, const PlanFacts& facts = {});

}  // namespace pal
