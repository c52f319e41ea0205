// What leaves the device in a step, as figures by name and as a line of text.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "memory/compiled.h"

namespace pal {

// Counts, bytes and predicted milliseconds; of dynamic managers also what they decided. Empty where
// nothing leaves.
std::vector<std::pair<std::string, double>> traffic_figures(const Compiled& step);
// Lines for a terminal, likewise.
std::vector<std::string> traffic_lines(const Compiled& step);

}  // namespace pal
