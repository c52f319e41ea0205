// A running statistic of a model (batch norm's mean and variance) and what the batch says of it.
#pragma once
#include "core/builder.h"

namespace pal {

// Running statistics that a training step moves: running + momentum (batch - running).
struct MovedStatistic {
  Val running, batch;
  float momentum = 0.1f;
};

}  // namespace pal
