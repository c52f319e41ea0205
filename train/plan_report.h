// A compiled step as people and programs read it: bytes by role and layer, what each pass did.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "memory/program_set.h"

namespace pal {

// The object of `pal plan --json` and plan.json (DESIGN section 8), on one line.
std::string plan_json(const Executable& step, std::pair<int64_t, int64_t> bucket);
std::string plan_json(const Compiled& step, std::pair<int64_t, int64_t> bucket);
// The same at a glance: a few lines for a terminal.
std::vector<std::string> plan_lines(const Executable& step);
std::vector<std::string> plan_lines(const Compiled& step);

std::string mib(int64_t bytes);  // "123.4 MiB"

}  // namespace pal
