// Where a step's memory goes: by role (the papers' data structures) and by layer, at the peak.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "memory/plan/plan.h"
#include "memory/storages/lifetimes.h"

namespace pal {

constexpr size_t kRoles = size_t(Role::host_copy) + 1;  // a gate counts as a gradient map

struct LayerBytes {
  std::string scope, type;  // "encoder/rnn/0", "feature_map"
  int64_t bytes = 0;
};

// Bytes on the device. by_role and layers add up to lower_bound; arena is that and what packing
// lost.
struct Footprint {
  int64_t arena = 0, lower_bound = 0, host = 0;
  std::array<int64_t, kRoles> by_role{};  // alive at the peak; inputs with both slots
  std::vector<LayerBytes> layers;         // largest first
  Peak peak;

  int64_t of(Role role) const { return by_role[size_t(role)]; }
};

// A storage counts for the value that it holds at the peak. State that the plan's layout has and
// the program does not (other programs' slots) counts by its bytes alone, as `weight`.
Footprint footprint_of(const Program& program, const Storages& storages, const Plan& plan);

// What a storage holds, and when, in moments (memory/storages/lifetimes.h): a value that fills it,
// from the start of its producer until the next one is made over it in place; before the first such
// value, and where there is none, its pieces count as the value they belong to. `value` kNone: a
// node's scratch memory. Storages that are never alive are left out.
struct Held {
  StorageId storage;
  ValueId value;
  int64_t begin, end;
};
std::vector<Held> held_values(const Program& program, const Storages& storages,
                              const ByStorage<Lifetime>& lifetimes);

// The role that the bytes count for.
Role role_of(const Program& program, const Held& held);

// Live bytes of the device over the step, by role: `columns` stretches of equally many moments,
// each as it is at its fullest moment.
struct Timeline {
  struct Column {
    int64_t moment = 0, bytes = 0;
    std::array<int64_t, kRoles> by_role{};
  };
  int64_t moments = 0;  // of the step
  std::vector<Column> columns;
};
Timeline timeline_of(const Program& program, const Storages& storages,
                     const std::vector<Held>& held, size_t columns);

// "the largest alive at the peak: a (12.0 MB), b (3.1 MB)": the `count` largest transients.
std::string largest_at_peak(const Program& program, const Storages& storages, const Peak& peak,
                            size_t count = 3);

}  // namespace pal
