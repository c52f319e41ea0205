// Small linear programs.
#pragma once
#include <vector>

namespace pal {

struct Limit {  // sum of part * x <= most, which is not negative
  std::vector<double> part;
  double most = 0;
};

// The x, none of them negative, that keeps to all limits and makes sum of gain * x largest, by the
// simplex method. ProgramError where nothing bounds it.
std::vector<double> most_within(const std::vector<Limit>& limits, const std::vector<double>& gain);

}  // namespace pal
