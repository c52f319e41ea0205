// Precision reduction as it was before Gist (section V-D1, "All-FP16"): values are rounded where
// they are made, so that every reader sees the rounded ones, the forward phase too.
#pragma once
#include "core/program.h"
#include "memory/run/program_set.h"
#include "ops/encodings/dpr.h"

namespace pal {

// The step with a format's encoding and decoding right behind the maker of each f32 feature map;
// and, with `gradients`, of each gradient map and weight gradient. State, statistics and the step's
// outputs stay as they are.
Program rounded_at_once(const Program& recorded, Dpr format, bool gradients);

// Rounds the weights of a set to the format, in place: to be called after each step.
void round_weights(ProgramSet& programs, Dpr format);

}  // namespace pal
