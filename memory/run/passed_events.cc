// A ring of steps, each with an event for every moment that it reports.
#include "memory/run/passed_events.h"

#include <algorithm>
#include <utility>

namespace pal {

PassedEvents::PassedEvents(std::shared_ptr<Accelerator> accelerator)
    : accelerator_(std::move(accelerator)) {
  for (Step& step : steps_) step.end = accelerator_->make_event();
}

void PassedEvents::wait_for_all_but_last() {
  if (ended_ >= 2) accelerator_->wait(steps_[(ended_ - 1) % kKept].end);
}

void PassedEvents::wait_for_last() {
  if (ended_ >= 1) accelerator_->wait(steps_[ended_ % kKept].end);
}

void PassedEvents::wait_for_passed() {
  if (next_ > 0) accelerator_->wait(now().events[next_ - 1]);
}

void PassedEvents::begin_count() {
  for (Step& step : steps_) step.number = -1;
  count_ = 0;
}

void PassedEvents::begin_step(const std::vector<int64_t>& reports) {
  ++begun_, next_ = 0;
  Step& step = now();
  step.number = count_++, step.moments = reports;
  while (step.events.size() < reports.size()) step.events.push_back(accelerator_->make_event());
}

void PassedEvents::pass(int64_t moment) {
  Step& step = now();
  for (; next_ < step.moments.size() && step.moments[next_] <= moment; ++next_) {
    accelerator_->record(step.events[next_], kComputeQueue);
  }
}

void PassedEvents::end_step() {
  pass(PassedMoment::kEnd);
  accelerator_->record(now().end, kComputeQueue);
  ended_ = begun_;
}

Accelerator::Event PassedEvents::event(int64_t number, int64_t moment) const {
  const auto step =
      std::find_if(steps_.begin(), steps_.end(), [&](const Step& s) { return s.number == number; });
  if (step == steps_.end()) return nullptr;
  const auto at = std::lower_bound(step->moments.begin(), step->moments.end(), moment);
  return at == step->moments.end() ? step->end : step->events[size_t(at - step->moments.begin())];
}

Accelerator::Event PassedEvents::end_of_last() const {
  return ended_ == 0 ? nullptr : steps_[ended_ % kKept].end;
}

}  // namespace pal
