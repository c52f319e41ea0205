// What a search may spend, and what it answers.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/place/buffers/deadline.h"

namespace pal {

struct SearchLimits {
  int64_t nodes = INT64_MAX;  // a node that spans many sections counts as several
  Deadline deadline = {};

  bool is_spent() const { return nodes <= 0 || is_past(deadline); }
  // Nodes only count where there is no deadline.
  void charge(int64_t work) {
    if (!deadline) nodes -= work;
  }
};

struct SearchResult {
  enum Answer { kFound, kInfeasible, kGaveUp } answer = kGaveUp;
  std::vector<int64_t> offset;  // by buffer, when found
  int64_t nodes = 0;            // that were visited
};

}  // namespace pal
