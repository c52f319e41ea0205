// The step's scalars: everything that changes from step to step but is no tensor. One small value,
// filled by the step's first node, so that a captured step never changes.
#pragma once
#include <cstdint>
#include <cstring>

#include "core/philox.h"
#include "core/spec.h"

namespace pal {

struct StepScalars {
  float learning_rate = 0;
  float loss_scale = 1;
  int32_t step = 0;         // optimizer updates done before this one, from 0
  int32_t micro_batch = 0;  // within the update
  uint32_t seed_low = 0, seed_high = 0;
  float tokens = 1;  // what the loss of the whole update is divided by
  int32_t reserved[9] = {};

  PAL_HD RandomKey key(uint32_t stream) const {
    return {uint64_t(seed_high) << 32 | seed_low, uint32_t(step), uint32_t(micro_batch), stream};
  }
};
static_assert(sizeof(StepScalars) == 64);

// The spec of the value that holds them.
inline TensorSpec scalars_spec() { return {Shape{16}, DType::i32}; }
PAL_HD inline const StepScalars& as_scalars(const void* p) {
  return *static_cast<const StepScalars*>(p);
}

}  // namespace pal
