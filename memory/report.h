// Where a step's memory goes: by role (the papers' data structures) and by layer, at the peak.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "memory/lifetimes.h"
#include "memory/plan.h"

namespace pal {

constexpr size_t kRoles = size_t(Role::host_copy) + 1;

struct LayerBytes {
  std::string scope, type;  // "encoder/rnn/0", "feature_map"
  int64_t bytes = 0;
};

// Bytes on the device. by_role and layers add up to lower_bound; arena is that and what packing lost.
struct Footprint {
  int64_t arena = 0, lower_bound = 0, host = 0;
  std::array<int64_t, kRoles> by_role{};  // alive at the peak; inputs with both slots
  std::vector<LayerBytes> layers;         // largest first
  Peak peak;

  int64_t of(Role role) const { return by_role[size_t(role)]; }
};

// A storage counts for the value that it holds at the peak. State that the plan's layout has and the
// program does not (other programs' slots) counts by its bytes alone, as `weight`.
Footprint footprint_of(const Program& program, const Storages& storages, const Plan& plan);

// "the largest alive at the peak: a (12.0 MB), b (3.1 MB)": the `count` largest transients.
std::string largest_at_peak(const Program& program, const Storages& storages, const Peak& peak,
                            size_t count = 3);

// "1.42 GB", "12.0 MB", "640 B": powers of 1000, as the papers count.
std::string format_bytes(int64_t bytes);

}  // namespace pal
