// Learning-rate schedules.
#include "train/schedule.h"

namespace pal {

double learning_rate(const TrainConfig& config, int64_t step) {
  const int64_t warmup = *config.warmup_steps;
  return step < warmup ? *config.lr * double(step + 1) / double(warmup) : *config.lr;
}

}  // namespace pal
