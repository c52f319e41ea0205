// A slot of pinned memory for every run between two looks.
#include "train/loop/step_watch.h"

#include <cmath>

#include "core/error.h"

namespace pal {

StepWatch::StepWatch(std::shared_ptr<Accelerator> accelerator, int64_t runs)
    : accelerator_(std::move(accelerator)), room_(runs) {
  if (!accelerator_) return;
  kept_ =
      reinterpret_cast<Kept*>(accelerator_->allocate(Space::host, runs * int64_t(sizeof(Kept))));
  steps_.reserve(size_t(runs));
}

StepWatch::~StepWatch() {
  if (!accelerator_) return;
  try {
    accelerator_->synchronize();  // copies may be under way
  } catch (const DeviceError&) {  // whoever asked for the work has been told
  }
  accelerator_->release(Space::host, reinterpret_cast<std::byte*>(kept_));
}

void StepWatch::keep(Executable& program, int64_t step, bool last) {
  if (int64_t(steps_.size()) == room_) throw ProgramError("more steps than there is room to watch");
  Kept& kept = kept_[steps_.size()];
  kept.gate[1] = 1, kept.norm[2] = 0;
  program.send_output("loss", reinterpret_cast<std::byte*>(&kept.loss));
  if (last) {
    program.send_output("gate", reinterpret_cast<std::byte*>(kept.gate));
    program.send_output("grad_norm", reinterpret_cast<std::byte*>(kept.norm));
  }
  steps_.push_back(step);
}

std::optional<int64_t> StepWatch::first_bad() {
  if (steps_.empty()) return {};
  accelerator_->synchronize();
  std::optional<int64_t> bad;
  for (size_t i = 0; i < steps_.size() && !bad; ++i) {
    const Kept& kept = kept_[i];
    if (!std::isfinite(kept.loss) || kept.gate[1] == 0 || std::isnan(kept.norm[2])) bad = steps_[i];
  }
  steps_.clear();
  return bad;
}

}  // namespace pal
