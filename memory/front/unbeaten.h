// Plans that no other beats in both bytes and time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace pal {

// The fastest first, each with fewer bytes than all before it. `ms_of` and `bytes_of` are members;
// of equals the first stays.
template <class Plan>
std::vector<Plan> unbeaten(std::vector<Plan> plans, double Plan::*ms_of, int64_t Plan::*bytes_of) {
  std::stable_sort(plans.begin(), plans.end(), [&](const Plan& a, const Plan& b) {
    return a.*ms_of != b.*ms_of ? a.*ms_of < b.*ms_of : a.*bytes_of < b.*bytes_of;
  });
  std::vector<Plan> left;
  for (Plan& plan : plans) {
    if (left.empty() || plan.*bytes_of < left.back().*bytes_of) left.push_back(std::move(plan));
  }
  return left;
}

}  // namespace pal
