// Each choice's step is made once: its clones, its bytes, its time.
#include "memory/recompute/echo_tried.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "memory/passes/encode.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/price/predict.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

// Two that end in the same choice are one trial.
bool same_choice(const EchoChoice& a, const EchoChoice& b) {
  return a.near == b.near && a.bits == b.bits && a.choice == b.choice;
}

// What a later pass makes of the maps that are stashed. Which of them are rounded may not depend on
// how many of their elements are zero, so nor may what is recomputed then.
Forms forms_later(const Program& program, const Encodings& encodings) {
  const Forms forms = choose_forms(program, encodings);
  return encodings.ssdc && !encodings.is_lossy() ? add_sparse(program, encodings, forms) : forms;
}

// The step as that pass leaves it, and its peak: encoded where that is lower.
struct Kept {
  Program program;
  int64_t bytes;
};
Kept kept(Program program, const RecomputeGoal& goal) {
  const StorageOptions counted{.maps_alone = goal.maps_alone};
  const int64_t dense = peak_bytes(program, {}, counted);
  if (!goal.encodings) return {std::move(program), dense};
  Program encoded = encode(program, forms_later(program, *goal.encodings));
  const int64_t bytes = peak_bytes(encoded, {}, counted);
  return bytes < dense ? Kept{std::move(encoded), bytes} : Kept{std::move(program), dense};
}

}  // namespace

bool fewer_bytes(const EchoChoice& a, const EchoChoice& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.overhead < b.overhead;
}

Clones clones_of(const StepView& view, const EchoChoice& trial) {
  Clones clones = insert_clones(view, trial.choice, std::min(trial.near, kClonesFar));
  if (trial.bits) stash_bits(clones);
  return clones;
}

bool EchoChoices::has_codes() const {
  return std::any_of(forms_.begin(), forms_.end(), [](const Form& f) { return f.has_codes(); });
}

EchoChoices::EchoChoices(const StepView& view, const RecomputeOptions& options,
                         const RecomputeGoal& goal)
    : view_(view),
      options_(options),
      goal_(goal),
      forms_(goal.encodings ? forms_later(view.program, *goal.encodings)
                            : Forms(view.program.values.size())),
      node_ms_(predict(view.program, kEchoDevice).node_ms) {
  const Kept plain = kept(view.program, goal);
  plain_bytes_ = plain.bytes, plain_ms_ = predict(plain.program, kEchoDevice).step_ms;
}

const EchoChoice* EchoChoices::look_at(EchoChoice trial) {
  for (const EchoChoice& known : list_) {
    if (same_choice(known, trial)) return &known;
  }
  Clones clones = clones_of(view_, trial);
  if (clones.count == 0 && clones.encoded == 0) return nullptr;
  Kept step = kept(std::move(clones.program), goal_);
  trial.bytes = step.bytes;
  if (goal_.fuse) step.program = fuse_recompute(std::move(step.program));
  trial.overhead = predict(step.program, kEchoDevice).step_ms / plain_ms_ - 1;
  list_.push_back(std::move(trial));
  return &list_.back();
}

const EchoChoice* EchoChoices::look_at(double price, EchoChoice trial) {
  view_.set_heavy(trial.heavier ? options_.heavier : options_.heavy);
  const EchoTrial asked{.near = trial.near,
                        .exchange = options_.exchange / price,
                        .launch_bytes = price > kEchoPrices[0] ? kEchoLaunch : 0,
                        .balance = kEchoDevice.f32 / kEchoDevice.memory,
                        .bits = trial.bits,
                        .forms = trial.codes ? &forms_ : nullptr};
  trial.choice = choose_echo(view_, asked);
  return look_at(std::move(trial));
}

void EchoChoices::allow_cheapest() {
  least_overhead_ = std::numeric_limits<double>::infinity();
  for (const EchoChoice& trial : list_) {
    if (saves(trial)) least_overhead_ = std::min(least_overhead_, trial.overhead);
  }
}

const EchoChoice* EchoChoices::best_within(double most, const EchoChoice* like) const {
  const EchoChoice* best = nullptr;
  for (const EchoChoice& trial : list_) {
    if (!saves(trial) || trial.overhead > most || !is_worth(trial)) continue;
    if (like && !is_like(trial, *like)) continue;
    if (!best || fewer_bytes(trial, *best)) best = &trial;
  }
  return best;
}

std::vector<const EchoChoice*> EchoChoices::by_overhead() const {
  std::vector<const EchoChoice*> found;
  for (const EchoChoice& trial : list_) {
    if (saves(trial)) found.push_back(&trial);
  }
  std::stable_sort(found.begin(), found.end(), [](const EchoChoice* a, const EchoChoice* b) {
    return a->overhead < b->overhead;
  });
  return found;
}

}  // namespace pal
