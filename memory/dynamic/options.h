// What can be asked of the dynamic managers.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "core/names.h"

namespace pal {

enum class Manager : uint8_t {
  fixed,  // every storage has one place for the whole step: the plan
  delta,  // DELTA: evicts or offloads, recomputes or reloads
  dtr,    // Kirisame et al. 2021, "Dynamic Tensor Rematerialization": evicts and recomputes
};
constexpr auto names(Manager) { return std::array{"static", "delta", "dtr"}; }

// What leaves first: the lowest (DELTA, equations 1 to 3; m: bytes, s: time since the last use).
enum class Filter : uint8_t { base /* 1/(m s) */, lru /* 1/s */, greedy /* 1/m */ };
constexpr auto names(Filter) { return std::array{"base", "lru", "greedy"}; }

// Likewise (DTR; c: milliseconds to make it again).
enum class DtrHeuristic : uint8_t {
  full,   // (c + those of evicted ancestors and descendants) / (m s)
  eq,     // likewise, of the sets of evicted neighbours, kept by union-find
  local,  // c / (m s)
  lru,    // 1 / s
  size,   // 1 / m
  msps,   // (c + those of evicted ancestors) / m
};
constexpr auto names(DtrHeuristic) {
  return std::array{"full", "eq", "local", "lru", "size", "msps"};
}

// What becomes of a storage that nobody reads any more (DTR).
enum class Dealloc : uint8_t {
  eager,   // evicted at once; it may be made again for what was made of it
  banish,  // freed for good once nothing made of it is evicted; what was made of it then stays
};
constexpr auto names(Dealloc) { return std::array{"eager", "banish"}; }

struct DynamicOptions {
  Manager manager = Manager::fixed;
  bool evicts = true;  // off: delta only copies; to compare swapping with swapping
  Filter filter = Filter::base;
  double start = 0.75;              // part of the slab at which delta begins to release
  int prefetch = 4;                 // reloads under way at most
  bool release_in_backward = true;  // else only where memory is short
  DtrHeuristic dtr = DtrHeuristic::full;
  Dealloc dealloc = Dealloc::eager;
};

// Of one step, as it was decided.
struct DynamicStats {
  int64_t evictions = 0, offloads = 0, reloads = 0, prefetches = 0, prefetch_hits = 0;
  int64_t recomputes = 0;    // nodes
  double recompute_ms = 0;   // predicted
  int64_t compactions = 0;   // how often free bytes had to be brought together
  double fragmentation = 0;  // the most free bytes, as a part of the slab, that were of no use
  double search_us = 0;      // that the decisions took
};

}  // namespace pal
