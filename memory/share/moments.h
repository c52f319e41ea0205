// Moments of a step at which a job stops, in order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace pal {

// Of two lists in order, those of either.
inline std::vector<int64_t> merged_moments(const std::vector<int64_t>& a,
                                           const std::vector<int64_t>& b) {
  std::vector<int64_t> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

}  // namespace pal
