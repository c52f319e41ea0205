// Placement problems with seeds: lifetimes as a training step has them.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/place/place.h"

namespace pal::test {

struct TrainingOptions {
  bool chopped = false;  // some long lives are cut into two, and a third part in the backward pass
  int distinct = 24;     // different sizes of feature maps
};
// About n buffers: layers allocate feature maps in the forward pass that the backward pass frees in
// reverse order, short-lived values beside them, and gradients in between.
std::vector<Buffer> training_lifetimes(uint64_t seed, int n, const TrainingOptions& options = {});

}  // namespace pal::test
