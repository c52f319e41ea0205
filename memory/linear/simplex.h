// What simplex methods have in common.
#pragma once
#include <cstddef>
#include <vector>

namespace pal {

// Column `enters` becomes basic in row `leaves`, in all rows.
inline void pivot(std::vector<std::vector<double>>& rows, size_t leaves, size_t enters) {
  const double by = rows[leaves][enters];
  for (double& x : rows[leaves]) x /= by;
  for (size_t r = 0; r < rows.size(); ++r) {
    const double times = rows[r][enters];
    if (r == leaves || times == 0) continue;
    for (size_t c = 0; c < rows[r].size(); ++c) rows[r][c] -= times * rows[leaves][c];
  }
}

}  // namespace pal
