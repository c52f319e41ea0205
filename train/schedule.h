// The learning rate as a function of the step.
#pragma once
#include <cstdint>

#include "train/config.h"

namespace pal {

// Of the update after `step` earlier ones: rises linearly over train.warmup_steps, then stays.
double learning_rate(const TrainConfig& config, int64_t step);

}  // namespace pal
