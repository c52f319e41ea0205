// First values of the state, drawn from (seed, slot name) alone: adding a layer moves no other
// weight.
#pragma once
#include <cstdint>

#include "memory/run/program_set.h"
#include "train/loop/sharded_state.h"

namespace pal {

// Fills every slot by its Init: weights drawn, optimizer state and statistics at their constants.
void initialise(ProgramSet& programs, uint64_t seed, const ShardedState& sharded = {});

// One slot's values, in f32. Orthogonal: (R, C) with C a multiple of R is C/R square orthogonal
// blocks side by side (an LSTM's gates); otherwise orthonormal rows or columns (Saxe et al. 2014).
void draw_initial(const Init& init, const Shape& shape, uint64_t seed, const std::string& name,
                  float* out);

}  // namespace pal
