// Packings without a hole, from both ends of time: two beams of columns (sweep.h) that meet
// where an order is left that both allow.
#pragma once
#include <cstdint>
#include <span>

#include "memory/place/buffers/buffer.h"
#include "memory/place/search/limits.h"
#include "memory/place/search/sweep.h"

namespace pal {

class ColumnSearch {
 public:
  // None of the buffers empty; they fill the same capacity at all times.
  explicit ColumnSearch(std::span<const Buffer> buffers);

  // With `width` columns kept; the seed draws noise. A guess: finds offsets or gives up.
  SearchResult run(int width, uint64_t seed, const SearchLimits& limits);

  // Whether what was found last was where two sweeps met, not the end of one.
  bool met() const { return met_; }

 private:
  bool meet(size_t column, size_t back, SearchResult& out);

  size_t buffers_;
  bool met_ = false;
  ColumnSweep forwards_, backwards_;
};

}  // namespace pal
