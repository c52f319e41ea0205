// Packings without a hole, cut from a rectangle of time and bytes: placement problems whose optimum
// is known, since it is the rectangle's height. With seeds, in several shapes of cuts.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/place/place.h"

namespace pal::test {

// How the rectangle is cut. Recursively, each piece in two by a line across (time) or along
// (bytes); a pinwheel is the smallest cut without such a line: four pieces around a fifth.
struct PackingShape {
  const char* name;
  int64_t steps, height;  // of the rectangle; small numbers make for many equal times and sizes
  bool largest_first =
      true;              // cut the largest piece next; otherwise one by chance: sizes differ more
  double pinwheels = 0;  // the share of cuts that are pinwheels
  bool skewed = false;   // lines close to a side, rather than anywhere
  bool halves = false;   // lines at a half or a third where there is one: many equal sizes
};

// The shapes that tests and benchmarks run over.
std::span<const PackingShape> packing_shapes();

// n buffers (fewer when nothing is left to cut, or n is not to be had with pinwheels), in random
// order.
std::vector<Buffer> perfect_packing(const PackingShape& shape, int n, uint64_t seed);

// Even or uneven cuts at any place.
std::vector<Buffer> perfect_packing(uint64_t seed, int n, int64_t steps, int64_t height,
                                    bool even = true);

}  // namespace pal::test
