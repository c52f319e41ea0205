// What leaves the device in a step, as figures by name and as lines of text.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "memory/compiled.h"

namespace pal {

// Counts, bytes and predicted milliseconds; of dynamic managers also what they decided
// (docs/managers.md). null where neither copies nor a manager are there.
nlohmann::ordered_json traffic_json(const Compiled& step);
// Lines for a terminal, likewise.
std::vector<std::string> traffic_lines(const Compiled& step);

}  // namespace pal
