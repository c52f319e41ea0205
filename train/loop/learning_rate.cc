// Learning-rate schedules.
#include "train/loop/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pal {
namespace {

int64_t at_most(int64_t decays, const std::optional<int64_t>& limit) {
  return limit ? std::min(decays, *limit) : decays;
}

int64_t step_decays(const TrainConfig& t, int64_t step) {
  const int64_t every = t.lr_decay_every->value(), start = t.lr_decay_start->value_or(every);
  return step < start ? 0 : at_most(1 + (step - start) / every, *t.lr_decay_times);
}

double cosine(const TrainConfig& t, int64_t step) {
  const double w = double(*t.warmup_steps), end = double(t.schedule_steps->value());
  const double p = std::clamp((double(step) - w) / (end - w), 0.0, 1.0);
  return *t.lr_min + (*t.lr - *t.lr_min) * (1 + std::cos(std::numbers::pi * p)) / 2;
}

double scheduled(const TrainConfig& t, int64_t step, const Plateau& plateau) {
  const std::string& kind = *t.schedule;
  const double lr = *t.lr;
  if (kind == "inverse_sqrt") {
    return lr * std::sqrt(double(std::max<int64_t>(*t.warmup_steps, 1)) / double(step + 1));
  }
  if (kind == "step") return lr * std::pow(*t.lr_factor, double(step_decays(t, step)));
  if (kind == "cosine") return cosine(t, step);
  if (kind == "plateau") return lr * std::pow(*t.lr_factor, double(plateau.decays));
  return lr;
}

}  // namespace

void Plateau::observe(const TrainConfig& config, bool improved) {
  if (improved) {
    stale = waited = 0;
    return;
  }
  ++stale, ++waited;
  if (*config.schedule != "plateau" || waited < *config.lr_patience) return;
  decays = at_most(decays + 1, *config.lr_decay_times);
  waited = 0;
}

double learning_rate(const TrainConfig& config, int64_t step, const Plateau& plateau) {
  const int64_t warmup = *config.warmup_steps;
  if (step < warmup) return *config.lr * double(step + 1) / double(warmup);
  return std::max(*config.lr_min, scheduled(config, step, plateau));
}

}  // namespace pal
