// A compiled step as people and programs read it: bytes by role and layer, what each pass did.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memory/run/program_set.h"
#include "train/report/plan_facts.h"

namespace pal {

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
