// Placement problems with seeds: perfect packings, whose optimum is known, and lifetimes as a
// training step has them.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/place.h"

namespace pal::test {

// A rectangle of `steps` by `height` bytes cut in two again and again, across or along, until there
// are n buffers: the optimum is `height`. In random order. The largest piece is cut next when
// `even`; otherwise one is drawn by chance, and sizes differ more.
std::vector<Buffer> perfect_packing(uint64_t seed, int n, int64_t steps, int64_t height,
                                    bool even = true);

struct TrainingOptions {
  bool chopped = false;  // some long lives are cut into two, and a third part in the backward pass
  int distinct = 24;     // different sizes of feature maps
};
// About n buffers: layers allocate feature maps in the forward pass that the backward pass frees in
// reverse order, short-lived values beside them, and gradients in between.
std::vector<Buffer> training_lifetimes(uint64_t seed, int n, const TrainingOptions& options = {});

}  // namespace pal::test
