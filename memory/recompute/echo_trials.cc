// Rungs of a ladder of prices, and what lies between two of them.
#include "memory/recompute/echo_trials.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/prepare.h"
#include "memory/passes/encode.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/price/predict.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

// What is recomputed, and what the step then needs and costs.
struct Trial {
  Choice choice;
  NodeId near = 0;
  bool bits = false, codes = false, heavier = false;  // codes: the cut knows of them
  double price = kEchoPrices[0];
  int64_t bytes = 0;
  double overhead = 0;  // of the step's time
};

// Two that end in the same choice are one trial.
bool same_choice(const Trial& a, const Trial& b) {
  return a.near == b.near && a.bits == b.bits && a.choice == b.choice;
}

bool fewer_bytes(const Trial& a, const Trial& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.overhead < b.overhead;
}

Clones clones_of(const StepView& view, const Trial& trial) {
  Clones clones = insert_clones(view, trial.choice, std::min(trial.near, kClonesFar));
  if (trial.bits) stash_bits(clones);
  return clones;
}

// What a later pass makes of the maps that are stashed. Which of them are rounded may not depend on
// how many of their elements are zero, so nor may what is recomputed then.
Forms forms_later(const Program& program, const Encodings& encodings) {
  const Forms forms = choose_forms(program, encodings);
  return encodings.ssdc && !encodings.is_lossy() ? add_sparse(program, encodings, forms) : forms;
}

bool any_codes(const Forms& forms) {
  return std::any_of(forms.begin(), forms.end(), [](const Form& f) { return f.has_codes(); });
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

// Nodes that one choice recomputes and another does not, where one reads another as one region.
struct CloneRegion {
  std::vector<NodeId> nodes;
  int64_t bytes = 0;  // of what need not be stashed
  double ms = 0;
};

std::vector<CloneRegion> regions_between(const StepView& view, const ByNode<double>& node_ms,
                                         const Choice& base, const Choice& dear) {
  const Program& p = view.program;
  auto extra = [&](ValueId v) { return v != kNone && dear[v] && !base[v]; };
  ByNode<NodeId> root(p.nodes.size(), kNone);
  auto find = [&](NodeId n) {
    while (root[n] != n) n = root[n] = root[root[n]];
    return n;
  };
  for (NodeId n = 0; n < p.node_count(); ++n) {
    if (std::none_of(p.node(n).out.begin(), p.node(n).out.end(), extra)) continue;
    root[n] = n;
    for (ValueId v : p.node(n).in) {
      if (extra(v)) root[find(p.value(v).producer)] = n;
    }
  }
  ByNode<int32_t> number(p.nodes.size(), -1);
  ByStorage<char> counted(view.storage_bytes.size(), 0);
  std::vector<CloneRegion> regions;
  for (NodeId n = 0; n < p.node_count(); ++n) {
    if (root[n] == kNone) continue;
    int32_t& at = number[find(n)];
    if (at < 0) at = int32_t(regions.size()), regions.emplace_back();
    CloneRegion& region = regions[size_t(at)];
    region.nodes.push_back(n);
    region.ms += node_ms[n];
    for (ValueId v : p.node(n).out) {
      if (!extra(v) || view.first_use[v] == kNone || counted[view.storage[v]]) continue;
      region.bytes += view.storage_bytes[view.storage[v]];
      counted[view.storage[v]] = 1;
    }
  }
  return regions;
}

// The nodes of all regions, those first that save most bytes for their time. A region that is too
// much as a whole is recomputed from somewhere to its end.
std::vector<NodeId> nodes_by_worth(std::vector<CloneRegion> regions) {
  std::stable_sort(regions.begin(), regions.end(), [](const CloneRegion& a, const CloneRegion& b) {
    return double(a.bytes) * b.ms > double(b.bytes) * a.ms;
  });
  std::vector<NodeId> nodes;
  for (const CloneRegion& region : regions) {
    nodes.insert(nodes.end(), region.nodes.rbegin(), region.nodes.rend());
  }
  return nodes;
}

// All trials of a step, each looked at once.
class Trials {
 public:
  Trials(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal)
      : view_(view),
        options_(options),
        goal_(goal),
        forms_(goal.encodings ? forms_later(view.program, *goal.encodings)
                              : Forms(view.program.values.size())),
        node_ms_(predict(view.program, kEchoDevice).node_ms) {
    const Kept plain = kept(view.program, goal);
    plain_bytes_ = plain.bytes, plain_ms_ = predict(plain.program, kEchoDevice).step_ms;
  }

  const ByNode<double>& node_ms() const { return node_ms_; }
  bool has_codes() const { return any_codes(forms_); }

  // The step with this choice. Null where nothing runs again and no bits are stashed.
  const Trial* look_at(Trial trial) {
    for (const Trial& known : list_) {
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

  // The choice that the price leads to, with all else as in `trial`.
  const Trial* look_at(double price, Trial trial) {
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

  // From now on heavier nodes are run again for a per cent of the footprint for each of the step's
  // time, counted from the footprint and the time of `light`.
  void compare_heavier_with(const Trial& light) {
    light_bytes_ = light.bytes, light_overhead_ = light.overhead;
  }
  // From now on, where nothing is cheap enough, the cheapest so far is, and what costs little more.
  void allow_cheapest() {
    least_overhead_ = std::numeric_limits<double>::infinity();
    for (const Trial& trial : list_) {
      if (saves(trial)) least_overhead_ = std::min(least_overhead_, trial.overhead);
    }
  }
  double limit(double most) const { return std::max(most, 1.1 * least_overhead_); }

  // The fewest bytes for at most so much time; of `like`, only those of its distance, and with bits
  // where it has them. Null: nothing saves any.
  const Trial* best_within(double most, const Trial* like = nullptr) const {
    const Trial* best = nullptr;
    for (const Trial& trial : list_) {
      if (!saves(trial) || trial.overhead > most || !is_worth(trial)) continue;
      if (like && !is_like(trial, *like)) continue;
      if (!best || fewer_bytes(trial, *best)) best = &trial;
    }
    return best;
  }

  // Those that save bytes, whatever time they cost; the cheapest first.
  std::vector<const Trial*> by_overhead() const {
    std::vector<const Trial*> found;
    for (const Trial& trial : list_) {
      if (saves(trial)) found.push_back(&trial);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Trial* a, const Trial* b) { return a->overhead < b->overhead; });
    return found;
  }

 private:
  bool saves(const Trial& trial) const { return trial.bytes < plain_bytes_; }
  static bool is_like(const Trial& a, const Trial& b) {
    return a.near == b.near && a.bits == b.bits && a.codes == b.codes;
  }
  bool is_worth(const Trial& trial) const {
    return !trial.heavier || double(light_bytes_ - trial.bytes) >=
                                 double(plain_bytes_) * (trial.overhead - light_overhead_);
  }

  StepView view_;
  const RecomputeOptions& options_;
  const RecomputeGoal& goal_;
  const Forms forms_;  // of the step as it is
  const ByNode<double> node_ms_;
  int64_t plain_bytes_ = 0;
  double plain_ms_ = 0;
  std::deque<Trial> list_;
  int64_t light_bytes_ = 0;
  double light_overhead_ = 0, least_overhead_ = 0;
};

// Fills `trials`. Which are looked at depends on the step and on the largest part of its time that
// may be added; more time only adds to them.
class Search {
 public:
  Search(const StepView& view, const RecomputeOptions& options, Trials& trials)
      : view_(view),
        options_(options),
        trials_(trials),
        tries_(std::clamp(int(kEchoNodes / std::max<size_t>(view.program.nodes.size(), 1)), 2, 6)) {
  }

  // Goes on from where it was left: `most` never falls.
  void run(double most) {
    if (!std::exchange(climbed_, true)) {
      for (const Trial& widest : widest_choices()) {
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
  using Ladder = std::vector<Trial>;

  // At the first price, the distance of the smallest footprint: without bits, with bits, and with
  // the codes of a later pass, or the best of these where the step is large.
  std::vector<Trial> widest_choices() {
    std::vector<Trial> widest;
    lightest_ = std::numeric_limits<double>::infinity();
    const bool bits = options_.bits && count_encoded(choose_forms(view_.program, kBits));
    std::vector<Trial> kinds{{}};
    if (bits) kinds.push_back({.bits = true});
    if (trials_.has_codes()) kinds.push_back({.bits = bits, .codes = true});
    for (Trial& kind : kinds) {
      std::optional<Trial> best;
      for (NodeId near : kEchoDistances) {
        kind.near = near;
        const Trial* trial = trials_.look_at(kEchoPrices[0], kind);
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
  void climb(Trial widest, bool heavier) {
    Ladder ladder;
    widest.heavier = heavier;
    for (double price : kEchoPrices) {
      const Trial* rung = trials_.look_at(price, widest);
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
                                    [&](const Trial& rung) { return rung.overhead <= level; });
    Trial dear = cheap[-1];
    if (cheap != ladder.end()) look_between(dear, cheap->price, level);
    const Trial* best = trials_.best_within(level, &dear);
    if (!best || double(best->bytes) * kEchoHope > double(trials_.best_within(level)->bytes))
      return;
    add_regions(*best, dear, level);
  }

  // `dear`: the cheapest so far that costs too much. `enough`: a price at which less does.
  void look_between(Trial& dear, double enough, double level) {
    for (int i = 0; i < kPricesBetween; ++i) {
      const double middle = std::sqrt(dear.price * enough);
      const Trial* trial = trials_.look_at(middle, dear);
      if (!trial || trial->overhead <= level) {
        enough = middle;
      } else {
        const bool heavier = dear.heavier;
        dear = *trial, dear.price = middle, dear.heavier = heavier;
      }
    }
  }

  void add_regions(Trial base, const Trial& dear, double level) {
    base.heavier |= dear.heavier;
    const std::vector<NodeId> nodes =
        nodes_by_worth(regions_between(view_, trials_.node_ms(), base.choice, dear.choice));
    size_t affordable = 0, too_many = nodes.size() + 1;
    for (int i = 0; i < tries_ && affordable + 1 < too_many; ++i) {
      const size_t count = (affordable + too_many) / 2;
      Trial trial = base;
      for (size_t k = 0; k < count; ++k) {
        for (ValueId v : view_.program.node(nodes[k]).out) {
          if (v != kNone) trial.choice[v] |= dear.choice[v];
        }
      }
      const Trial* tried = trials_.look_at(std::move(trial));
      if (!tried) return;
      (tried->overhead <= level ? affordable : too_many) = count;
    }
  }

  static constexpr int kPricesBetween = 2, kManyTries = 6;

  const StepView& view_;
  const RecomputeOptions& options_;
  Trials& trials_;
  const int tries_;  // of regions, at a level
  std::vector<Ladder> ladders_;
  double lightest_ = 0;  // the least overhead at the first price, without heavier nodes
  bool climbed_ = false;
  size_t level_ = 0;  // the next to be filled
};

using Footprints = std::map<const Trial*, int64_t>;

// Of the trials that are best by their own bytes at one of the levels up to `most`, the one with
// the smallest footprint. Its own bytes are an estimate of that, without the passes that follow:
// where it is a tenth above the best, the footprint is not asked for.
Clones smallest(const StepView& view, const Trials& trials, double most,
                const FootprintOf& footprint, Footprints& known) {
  const Trial* best = nullptr;
  int64_t least = 0;
  double ratio = 1;  // of a footprint to its estimate
  const Trial* before = nullptr;
  for (size_t i = kEchoLevels.size() + 1; i-- > 0;) {
    const double level = trials.limit(i ? kEchoLevels[i - 1].part : 0);
    if (i && kEchoLevels[i - 1].part > most) continue;
    const Trial* trial = trials.best_within(level);
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
  Trials trials(view, options, goal);
  Search(view, options, trials).run(goal.budget ? kMost : options.overhead);
  Footprints known;
  Clones best = smallest(view, trials, options.overhead, footprint, known);
  if (!goal.budget || (best.bytes && best.bytes <= *goal.budget)) return best;
  for (const Trial* trial : trials.by_overhead()) {
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
  Trials trials_;
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
