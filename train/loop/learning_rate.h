// The learning rate as a function of the step, and of how validations went.
#pragma once
#include <cstdint>

#include "train/config/config.h"

namespace pal {

// What validations have said so far: for train.schedule plateau, and train.patience.
struct Plateau {
  int64_t stale = 0;   // validations in a row without a new best
  int64_t waited = 0;  // of those, since the learning rate was last lowered
  int64_t decays = 0;  // how often plateau has lowered it

  // After a validation. Lowers the rate (of the schedule plateau) when it has waited long enough.
  void observe(const TrainConfig& config, bool improved);
  bool operator==(const Plateau&) const = default;
};

// Of the update after `step` earlier ones. With s = step + 1, w = warmup_steps and r the schedule:
//   s < w: lr s / w, else max(lr_min, r(s)), where r is
//   constant      lr
//   inverse_sqrt  lr sqrt(max(w, 1) / s)                         (Vaswani et al. 2017, as fairseq)
//   step          lr lr_factor^k, k = decays due after `step` updates, at most lr_decay_times
//   cosine        lr_min + (lr - lr_min) (1 + cos(pi p)) / 2, p from 0 at w to 1 at schedule_steps
//                                                               (Loshchilov & Hutter 2017)
//   plateau       lr lr_factor^plateau.decays
double learning_rate(const TrainConfig& config, int64_t step, const Plateau& plateau = {});

}  // namespace pal
