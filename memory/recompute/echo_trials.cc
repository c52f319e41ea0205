// Rungs of a ladder of prices, and what lies between two of them.
#include "memory/recompute/echo_trials.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/prepare.h"
#include "memory/passes/encode.h"
#include "memory/recompute/clone_regions.h"
#include "memory/recompute/echo_tried.h"

namespace pal {
namespace {

// Fills `trials`. Which are looked at depends on the step and on the largest part of its time that
// may be added; more time only adds to them.
class Search {
 public:
  Search(const StepView& view, const RecomputeOptions& options, EchoChoices& trials)
      : view_(view),
        options_(options),
        trials_(trials),
        tries_(std::clamp(int(kEchoNodes / std::max<size_t>(view.program.nodes.size(), 1)), 2, 6)) {
  }

  // Goes on from where it was left: `most` never falls.
  void run(double most) {
    if (!std::exchange(climbed_, true)) {
      for (const EchoChoice& widest : widest_choices()) {
        climb(widest, false);
        if (options_.heavier > options_.heavy) climb(widest, true);
      }
      trials_.allow_cheapest();
    }
    for (; level_ < kEchoLevels.size(); ++level_) {
      if (!kEchoLevels[level_].filled) continue;
      if (kEchoLevels[level_].part > trials_.limit(most)) break;
      for (const Ladder& ladder : ladders_) fill(ladder, kEchoLevels[level_].part);
    }
  }

 private:
  // Choices at rising prices: the first costs most time.
  using Ladder = std::vector<EchoChoice>;

  // At the first price, the distance of the smallest footprint: without bits, with bits, and with
  // the codes of a later pass, or the best of these where the step is large.
  std::vector<EchoChoice> widest_choices() {
    std::vector<EchoChoice> widest;
    lightest_ = std::numeric_limits<double>::infinity();
    const bool bits = options_.bits && count_encoded(choose_forms(view_.program, kBits));
    std::vector<EchoChoice> kinds{{}};
    if (bits) kinds.push_back({.bits = true});
    if (trials_.has_codes()) kinds.push_back({.bits = bits, .codes = true});
    for (EchoChoice& kind : kinds) {
      std::optional<EchoChoice> best;
      for (NodeId near : kEchoDistances) {
        kind.near = near;
        const EchoChoice* trial = trials_.look_at(kEchoPrices[0], kind);
        if (!trial) continue;
        lightest_ = std::min(lightest_, trial->overhead);
        if (!best || fewer_bytes(*trial, *best)) best = *trial;
      }
      if (best) widest.push_back(std::move(*best));
    }
    if (widest.empty()) return widest;
    const auto least = std::min_element(widest.begin(), widest.end(), fewer_bytes);
    trials_.compare_heavier_with(*least);
    if (tries_ < kManyTries) widest = {*least};
    return widest;
  }

  // Up to the price at which next to nothing is worth it.
  void climb(EchoChoice widest, bool heavier) {
    Ladder ladder;
    widest.heavier = heavier;
    for (double price : kEchoPrices) {
      const EchoChoice* rung = trials_.look_at(price, widest);
      if (!rung) break;
      ladder.push_back(*rung);
      ladder.back().price = price, ladder.back().heavier = heavier;
      if (rung->overhead <= kEchoLevels[0].part) break;
    }
    if (!ladder.empty()) ladders_.push_back(std::move(ladder));
  }

  // For so much of the step's time: what lies between the rung that costs too much and the next,
  // then regions of the former, as many as the time allows, unless the rung is so much larger than
  // another ladder's that they would not make up for it. Heavier nodes wait until the others cost
  // less than that.
  void fill(const Ladder& ladder, double level) {
    if (ladder[0].overhead <= level || (ladder[0].heavier && lightest_ > level)) return;
    const auto cheap = std::find_if(ladder.begin(), ladder.end(),
                                    [&](const EchoChoice& rung) { return rung.overhead <= level; });
    EchoChoice dear = cheap[-1];
    if (cheap != ladder.end()) look_between(dear, cheap->price, level);
    const EchoChoice* best = trials_.best_within(level, &dear);
    if (!best || double(best->bytes) * kEchoHope > double(trials_.best_within(level)->bytes))
      return;
    add_regions(*best, dear, level);
  }

  // `dear`: the cheapest so far that costs too much. `enough`: a price at which less does.
  void look_between(EchoChoice& dear, double enough, double level) {
    for (int i = 0; i < kPricesBetween; ++i) {
      const double middle = std::sqrt(dear.price * enough);
      const EchoChoice* trial = trials_.look_at(middle, dear);
      if (!trial || trial->overhead <= level) {
        enough = middle;
      } else {
        const bool heavier = dear.heavier;
        dear = *trial, dear.price = middle, dear.heavier = heavier;
      }
    }
  }

  void add_regions(EchoChoice base, const EchoChoice& dear, double level) {
    base.heavier |= dear.heavier;
    const std::vector<NodeId> nodes =
        nodes_by_worth(view_, trials_.node_ms(), base.choice, dear.choice);
    size_t affordable = 0, too_many = nodes.size() + 1;
    for (int i = 0; i < tries_ && affordable + 1 < too_many; ++i) {
      const size_t count = (affordable + too_many) / 2;
      EchoChoice trial = base;
      for (size_t k = 0; k < count; ++k) {
        for (ValueId v : view_.program.node(nodes[k]).out) {
          if (v != kNone) trial.choice[v] |= dear.choice[v];
        }
      }
      const EchoChoice* tried = trials_.look_at(std::move(trial));
      if (!tried) return;
      (tried->overhead <= level ? affordable : too_many) = count;
    }
  }

  static constexpr int kPricesBetween = 2, kManyTries = 6;

  const StepView& view_;
  const RecomputeOptions& options_;
  EchoChoices& trials_;
  const int tries_;  // of regions, at a level
  std::vector<Ladder> ladders_;
  double lightest_ = 0;  // the least overhead at the first price, without heavier nodes
  bool climbed_ = false;
  size_t level_ = 0;  // the next to be filled
};

using Footprints = std::map<const EchoChoice*, int64_t>;

// Of the trials that are best by their own bytes at one of the levels up to `most`, the one with
// the smallest footprint. Its own bytes are an estimate of that, without the passes that follow:
// where it is a tenth above the best, the footprint is not asked for.
Clones smallest(const StepView& view, const EchoChoices& trials, double most,
                const FootprintOf& footprint, Footprints& known) {
  const EchoChoice* best = nullptr;
  int64_t least = 0;
  double ratio = 1;  // of a footprint to its estimate
  const EchoChoice* before = nullptr;
  for (size_t i = kEchoLevels.size() + 1; i-- > 0;) {
    const double level = trials.limit(i ? kEchoLevels[i - 1].part : 0);
    if (i && kEchoLevels[i - 1].part > most) continue;
    const EchoChoice* trial = trials.best_within(level);
    if (!trial) break;
    if (trial == before) continue;
    if (before && double(trial->bytes) * ratio * kEchoSlack > double(least)) break;
    before = trial;
    const auto [at, is_new] = known.try_emplace(trial, 0);
    if (is_new) at->second = footprint(clones_of(view, *trial).program);
    if (best && at->second >= least) continue;
    ratio = std::min(1.0, double(at->second) / double(trial->bytes));
    best = trial, least = at->second;
  }
  if (!best) return {};
  Clones clones = clones_of(view, *best);
  clones.bytes = least;
  return clones;
}

Clones searched(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal,
                const FootprintOf& footprint) {
  constexpr double kMost = kEchoLevels.back().part;
  EchoChoices trials(view, options, goal);
  Search(view, options, trials).run(goal.budget ? kMost : options.overhead);
  Footprints known;
  Clones best = smallest(view, trials, options.overhead, footprint, known);
  if (!goal.budget || (best.bytes && best.bytes <= *goal.budget)) return best;
  for (const EchoChoice* trial : trials.by_overhead()) {
    if (trial->bytes > *goal.budget) continue;
    Clones clones = clones_of(view, *trial);
    clones.bytes = footprint(clones.program);
    if (clones.bytes <= *goal.budget) return clones;
  }
  return smallest(view, trials, kMost, footprint, known);
}

class TriedOnStep : public EchoMemory::Tried {
 public:
  TriedOnStep(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal)
      : program_(view.program),
        options_(options),
        goal_(goal),
        view_(program_, options_),
        trials_(view_, options_, goal_),
        search_(view_, options_, trials_) {}
  TriedOnStep(const TriedOnStep&) = delete;
  TriedOnStep& operator=(const TriedOnStep&) = delete;

  bool goes_on_to(const StepView& view, const RecomputeOptions& options,
                  const RecomputeGoal& goal) const override {
    const auto others = [](const RecomputeOptions& o) {
      return std::tie(o.heavy, o.heavier, o.exchange, o.bits, o.scopes);
    };
    return options.overhead >= options_.overhead && others(options) == others(options_) &&
           goal.fuse == goal_.fuse && goal.maps_alone == goal_.maps_alone &&
           same_step(view.program, program_);
  }
  Clones best(double overhead, const FootprintOf& footprint) override {
    options_.overhead = overhead;
    search_.run(overhead);
    return smallest(view_, trials_, overhead, footprint, footprints_);
  }

 private:
  const Program program_;
  RecomputeOptions options_;
  const RecomputeGoal goal_;
  const StepView view_;
  EchoChoices trials_;
  Search search_;
  Footprints footprints_;
};

}  // namespace

Clones best_echo(const StepView& view, const RecomputeOptions& options, RecomputeGoal goal,
                 const FootprintOf& footprint) {
  if (goal.memory && !goal.budget && !goal.encodings) {
    return goal.memory->best(view, options, goal, footprint);
  }
  Clones best = searched(view, options, goal, footprint);
  if (!std::exchange(goal.encodings, nullptr)) return best;
  if (goal.budget && best.bytes && best.bytes <= *goal.budget) return best;
  // Never more bytes than recomputation that does not know what comes after it.
  Clones alone = searched(view, options, goal, footprint);
  return !best.bytes || (alone.bytes && alone.bytes < best.bytes) ? alone : best;
}

Clones EchoMemory::best(const StepView& view, const RecomputeOptions& options,
                        const RecomputeGoal& goal, const FootprintOf& footprint) {
  if (!tried_ || !tried_->goes_on_to(view, options, goal)) {
    tried_ = std::make_unique<TriedOnStep>(view, options, goal);
  }
  return tried_->best(options.overhead, footprint);
}

}  // namespace pal
