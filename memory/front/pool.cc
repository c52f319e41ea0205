// Candidates, their judgement, and the placement of those on the front.
#include "memory/front/pool.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "memory/front/bound.h"
#include "memory/front/choose.h"
#include "memory/front/deep.h"
#include "memory/front/judge.h"
#include "memory/front/maps.h"
#include "memory/front/may_be_faster.h"
#include "memory/front/techniques.h"
#include "memory/front/unbeaten.h"
#include "memory/pass.h"
#include "memory/passes/even_rows.h"
#include "memory/passes/forms.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

// What is chosen is many plans near each other. Each is placed in a few rounds, and looked at
// again, in more of them and by a short search, where that may matter: where it could come down by
// so large a part of its bytes, and what else there is for as few takes so much longer. Techniques
// alone are placed as the user who asks for one has them placed.
constexpr PlaceEffort kShortly{.rounds = 16, .nodes = 0, .slack = 0.001},
    kLonger{.nodes = 30'000, .slack = 0.001};
constexpr double kWorthBytes = 0.005, kWorthMs = 0.005;
// Where segments are beaten by so much as they are counted, passes are not asked.
constexpr double kFarBelow = 0.985;

// Segments that copy take so many times the bytes that they claim: copies come later than claimed.
constexpr double kRoomForCopies = 1.04;

// Of the plans found, those of the fewest bytes are tried with copies planned for so many sizes
// between theirs and the floor; in all so many times, fewer in steps of many nodes.
constexpr int kSwappedSizes = 6, kFewestSwapped = 4, kMostSwapped = 18;
constexpr size_t kSwappedNodes = 20'000;

bool faster(const Candidate& a, const Candidate& b) {
  return a.ms != b.ms ? a.ms < b.ms : a.alive < b.alive;
}

struct Placed {
  FrontPoint point;
  int64_t alive = 0;
  std::shared_ptr<const Compiled> passed;  // null: it will not be placed better
};

void count_maps(const Compiled& step, const Plan& plan, FrontPoint& point) {
  each_map(step, [&](ValueId, MapIs is, int64_t bytes) {
    int64_t* const of[] = {&point.kept, &point.recomputed, &point.encoded, &point.offloaded};
    *of[size_t(is)] += bytes;
  });
  point.host = plan.host().bytes;
}

bool copies(const CompileOptions& options) {
  return options.profile->link > 0 && options.host_budget != 0;
}
// As choices and bounds see it: without copies, a device without a link.
DeviceProfile link_for_copies(const CompileOptions& options) {
  DeviceProfile device = *options.profile;
  if (!copies(options)) device.link = device.link_both = 0;
  return device;
}

void bound(Front& front, const Program& recorded, const StateLayout& layout,
           const CompileOptions& plain) {
  if (plain.profile->times) return;  // bounds are of the profile's roofline
  std::vector<int64_t> bytes;
  for (const FrontPoint& point : front.points) bytes.push_back(point.bytes);
  const Bounds bounds = bounds_of(recorded, layout, plain, link_for_copies(plain), bytes);
  for (size_t i = 0; i < bounds.ms.size(); ++i) front.points[i].bound_ms = bounds.ms[i];
  front.floor.bytes = std::min(front.floor.bytes, bounds.least_bytes);
}

class Pool {
 public:
  Pool(const Program& recorded, KernelCache& cache, const StateLayout& layout,
       const CompileOptions& options, const FrontChoices& choices, std::optional<int> workers)
      : recorded_(recorded),
        cache_(cache),
        layout_(layout),
        plain_(without_techniques(options)),
        choices_(choices),
        copies_(copies(plain_)),
        judge_(recorded_, cache, layout, *plain_.profile, workers) {
    for (ValueId v : recorded_.values.ids()) recorded_.value(v).origin = v;
  }

  Front run() {
    Candidate none = judge_.judged({.options = plain_, .from = "none"});
    foreign_ = none.alive - peak_of(none.passed->storages,
                                    lifetimes_of(none.passed->program, none.passed->storages))
                                .bytes;
    Front front{.floor = floor_of(*none.passed), .plain_ms = none.ms};
    plain_ms_ = none.ms;
    if (!may_be_faster(recorded_, cache_, layout_, plain_)) least_ms_ = none.ms;
    front.alone.push_back({"none", none.alive, none.ms});
    pool_.push_back(std::move(none));
    if (plain_.fuse_recompute) {
      add(judge_.judged({.options = fused_alone(plain_), .from = "fused"}));
    }
    // What asks for no plan that is placed.
    std::vector<Chosen> chosen;
    DeepPlans deep;
    std::vector<Family> each_alone = techniques(plain_, copies_);
    judge_.judge(each_alone,
                 {[&] { chosen = choices(front.floor.bytes); },
                  [&] { deep = deep_plans(recorded_, plain_, link_for_copies(plain_)); }});
    add_chosen(std::move(chosen));
    place_pool();
    add_deep(deep.alone);
    place_pool();
    place_again();
    if (copies_) add_swapped(front.floor.bytes);
    place_pool();
    add_deep_with_copies(deep.with_copies);
    place_pool();
    place_again();
    add_judged(std::move(each_alone));
    if (choices_.lossy) judge_and_add(rounded(plain_, found()));
    for (const Candidate& each : pool_) front.alone.push_back({each.from, each.alive, each.ms});
    place_pool();
    for (Placed& each : placed_) front.points.push_back(std::move(each.point));
    front.keep_unbeaten();
    // A node may lie in place, or be fused otherwise, where others keep nothing for later.
    front.floor.bytes = std::min(front.floor.bytes, front.points.front().bytes);
    return front;
  }

 private:
  // Nothing is kept of what is beaten already.
  void add(Candidate one) {
    pool_.push_back(std::move(one));
    if (is_beaten(pool_.back())) pool_.back().passed.reset();
  }
  void add_judged(std::vector<Family> judged) {
    for (Family& family : judged) {
      for (Candidate& each : family) add(std::move(each));
    }
  }
  void judge_and_add(std::vector<Family> families) {
    judge_.judge(families);
    add_judged(std::move(families));
  }

  FrontFloor floor_of(const Compiled& step) const {
    const ByStorage<Lifetime> lifetimes = lifetimes_of(step.program, step.storages);
    int64_t fixed = foreign_;
    ByNode<int64_t> touched(step.program.nodes.size(), 0);
    const ByStorage<std::vector<NodeId>> touches = touches_of(step.program, step.storages);
    for (StorageId s : touches.ids()) {
      const Storage& storage = step.storages[s];
      if (storage.space != Space::device) continue;
      if (storage.persistent || storage.input) {
        fixed += footprint(storage);
        continue;
      }
      NodeId last = kNone;
      for (NodeId n : touches[s]) {
        if (std::exchange(last, n) != n) touched[n] += footprint(storage);
      }
    }
    const auto largest = std::max_element(touched.begin(), touched.end());
    if (largest == touched.end()) return {fixed, ""};
    const NodeId node = NodeId(largest - touched.begin());
    return {fixed + *largest, layer_of(step.program, step.program.node(node))};
  }

  // Where all that may run again does, what is left is copied.
  void add_swapped(int64_t floor) {
    const std::vector<FrontPoint> exact = found();
    int tries =
        std::clamp(int(kSwappedNodes / (recorded_.nodes.size() + 1)), kFewestSwapped, kMostSwapped);
    for (size_t k = exact.size(); k-- > 0 && tries > 0;) {
      const FrontPoint& point = exact[k];
      if (point.bytes <= floor) continue;
      CompileOptions options = point.options;
      // Where values are chosen, if none, swapping goes by the bytes alive: the pool places.
      if (!options.swap.chosen) options.swap.chosen.emplace();
      options.swap.method = Swap::planned, options.place_effort = kShortly;
      const double whole = double(floor) / double(point.bytes);
      std::vector<Family> sizes;
      for (int i = 1; i <= std::min(kSwappedSizes, tries); ++i) {
        options.budget = int64_t(double(point.bytes) * std::pow(whole, double(i) / kSwappedSizes));
        sizes.push_back(alone({.options = options, .from = point.from + ", swapped"}));
      }
      tries -= add_until_missed(std::move(sizes));
    }
  }
  // Up to the first whose bytes are above its budget: as low as copies bring it. How many they are.
  int add_until_missed(std::vector<Family> sizes) {
    int added = 0;
    while (!sizes.empty()) {
      const auto last = sizes.begin() + std::ptrdiff_t(std::min(judge_.workers(), sizes.size()));
      std::vector<Family> next(std::make_move_iterator(sizes.begin()),
                               std::make_move_iterator(last));
      sizes.erase(sizes.begin(), last);
      judge_.judge(next);
      for (Family& size : next) {
        add(std::move(size.front())), ++added;
        if (pool_.back().alive > *pool_.back().options.budget) return added;
      }
    }
    return added;
  }
  // Plans that no other beats, so far as they are placed; the least last.
  std::vector<FrontPoint> found() const {
    std::vector<FrontPoint> points;
    for (const Placed& each : placed_) points.push_back(each.point);
    return unbeaten(std::move(points), &FrontPoint::step_ms, &FrontPoint::bytes);
  }
  CompileOptions to_choose() const {
    CompileOptions options = plain_;
    options.recompute = Recompute::chosen, options.place_effort = kShortly;
    return options;
  }
  // By the sketch, down to the floor.
  std::vector<Chosen> choices(int64_t least) const {
    return choose_plans(recorded_, to_choose(), link_for_copies(plain_), least - foreign_);
  }
  void add_chosen(std::vector<Chosen> plans) {
    std::vector<Family> families;
    for (Chosen& each : plans) {
      CompileOptions options = to_choose();
      options.swap = {};
      options.recompute_options.chosen = std::move(each.again);
      if (!each.away.empty()) {
        options.swap = {.method = Swap::planned, .chosen = std::move(each.away)};
      }
      options.budget = each.limit + foreign_;
      std::string from = "chosen for " + format_bytes(*options.budget);
      families.push_back(alone({.options = std::move(options), .from = std::move(from)}));
    }
    judge_and_add(std::move(families));
  }

  CompileOptions options_of(const DeepPlan& plan) const {
    CompileOptions options = plain_;
    options.recompute = Recompute::reruns, options.place_effort = kShortly;
    options.recompute_options.reruns = plan.reruns;
    return options;
  }
  void add_deep(const std::vector<DeepPlan>& plans) {
    std::vector<Family> families;
    for (const DeepPlan& plan : plans) {
      // What passes make of it is not far from that.
      const Candidate about{.alive = foreign_ + int64_t(kFarBelow * double(plan.least)),
                            .ms = kFarBelow * (plain_ms_ + plan.added_ms)};
      if (is_beaten(about)) continue;
      families.push_back(alone({.options = options_of(plan), .from = "segments"}));
    }
    judge_and_add(std::move(families));
  }
  void add_deep_with_copies(const std::vector<DeepPlan>& plans) {
    std::vector<Family> families;
    for (const DeepPlan& plan : plans) {
      // By the queues copies come later than claimed, and no plan is better than claimed.
      if (is_beaten({.alive = foreign_ + plan.least, .ms = plain_ms_ + plan.added_ms})) continue;
      CompileOptions options = options_of(plan);
      options.swap = {.method = Swap::planned, .chosen = plan.away};
      options.budget = foreign_ + int64_t(kRoomForCopies * double(plan.least));
      families.push_back(alone({.options = std::move(options), .from = "segments, copied"}));
    }
    judge_and_add(std::move(families));
  }

  // By some plan of as few bytes as this one has at least.
  bool is_beaten(const Candidate& one) const {
    return std::any_of(placed_.begin(), placed_.end(), [&](const Placed& other) {
      return other.point.bytes <= one.alive && other.point.step_ms <= one.ms;
    });
  }

  // The fastest first, and none that is beaten: in a group that is placed side by side, not by
  // another of the group either.
  void place_pool() {
    std::stable_sort(pool_.begin(), pool_.end(), faster);
    for (size_t next = 0; next < pool_.size();) {
      std::vector<Candidate> group;
      for (; next < pool_.size() && group.size() < judge_.workers(); ++next) {
        Candidate& each = pool_[next];
        if (each.ms >= least_ms_ && !is_beaten(each)) group.push_back(std::move(each));
      }
      const std::vector<Plan> plans = judge_.plans_of(group);
      for (size_t i = 0; i < group.size(); ++i) {
        if (!is_beaten(group[i])) keep(group[i], plans[i]);
      }
    }
    pool_.clear();
  }
  void keep(Candidate& each, const Plan& plan) {
    FrontPoint point{.options = std::move(each.options),
                     .from = std::move(each.from),
                     .bytes = plan.device().bytes,
                     .step_ms = each.ms};
    count_maps(*each.passed, plan, point);
    const bool shortly = point.options.place_effort.nodes == kShortly.nodes;
    if (!shortly || !is_above(point.bytes, each.alive)) each.passed.reset();
    placed_.push_back({std::move(point), each.alive, std::move(each.passed)});
  }
  bool is_above(int64_t bytes, int64_t alive) const {
    return double(bytes - foreign_) > (1 + kWorthBytes) * double(alive - foreign_);
  }

  // The fastest first. What does not matter in view of others will not in view of more.
  void place_again() {
    std::stable_sort(placed_.begin(), placed_.end(), [](const Placed& a, const Placed& b) {
      return a.point.step_ms < b.point.step_ms;
    });
    for (size_t next = 0; next < placed_.size();) {
      std::vector<Placed*> group;
      std::vector<Candidate> again;
      for (; next < placed_.size() && group.size() < judge_.workers(); ++next) {
        Placed& each = placed_[next];
        std::shared_ptr<const Compiled> passed = std::exchange(each.passed, nullptr);
        if (!passed || !may_matter(each)) continue;
        group.push_back(&each);
        again.push_back({.options = each.point.options, .passed = std::move(passed)});
        again.back().options.place_effort = kLonger;
      }
      const std::vector<Plan> plans = judge_.plans_of(again);
      for (size_t i = 0; i < group.size(); ++i) {
        FrontPoint& point = group[i]->point;
        if (!may_matter(*group[i]) || plans[i].device().bytes >= point.bytes) continue;
        point.options = std::move(again[i].options), point.bytes = plans[i].device().bytes;
        point.host = plans[i].host().bytes;
      }
    }
  }
  bool may_matter(const Placed& one) const {
    int64_t least = one.point.bytes;                      // of what is as fast
    double ms = std::numeric_limits<double>::infinity();  // of what takes no more than it could
    for (const Placed& other : placed_) {
      if (other.point.step_ms <= one.point.step_ms) least = std::min(least, other.point.bytes);
      if (!is_above(other.point.bytes, one.alive)) ms = std::min(ms, other.point.step_ms);
    }
    return is_above(least, one.alive) && ms > (1 + kWorthMs) * one.point.step_ms;
  }

  Program recorded_;
  KernelCache& cache_;
  const StateLayout& layout_;
  CompileOptions plain_;
  FrontChoices choices_;
  bool copies_;
  Judge judge_;
  std::vector<Candidate> pool_;
  std::vector<Placed> placed_;
  int64_t foreign_ = 0;  // state and inputs of the set that the program does not carry
  double plain_ms_ = 0;
  // A step that fits as it was recorded runs so, without a front, unless may_be_faster(): then no
  // plan of fewer bytes may be faster, or more bytes would be slower.
  double least_ms_ = 0;
};

}  // namespace

CompileOptions without_techniques(CompileOptions options) {
  options.recompute = Recompute::none;
  options.recompute_options = {.bits = options.recompute_options.bits};
  options.encode = {}, options.swap = {.vdnn = options.swap.vdnn};
  options.budget.reset(), options.must_fit = false;
  return options;
}

void Front::keep_unbeaten() {
  points = unbeaten(std::move(points), &FrontPoint::step_ms, &FrontPoint::bytes);
  std::reverse(points.begin(), points.end());
}

const FrontPoint* Front::pick(const FrontLimits& limits) const {
  const FrontPoint* fastest = nullptr;
  for (const FrontPoint& point : points) {
    if (point.bytes > limits.device || point.step_ms > limits.step_ms) continue;
    if (point.offloaded > 0 && point.host > limits.host) continue;
    fastest = &point;
  }
  return fastest;
}

Front make_front(const Program& recorded, KernelCache& cache, const StateLayout& layout,
                 const CompileOptions& options, const FrontChoices& choices,
                 std::optional<int> workers) {
  if (options.dynamic.manager != Manager::fixed) {
    throw UsageError("[front] memory.manager: " + name_of(options.dynamic.manager) +
                     " decides while it plans; leave it out");
  }
  // All plans begin so, a card's with wider rows, and no bound may be that of another step.
  Program step = options.fuse_epilogues ? fuse_first(recorded) : recorded;
  if (is_card(cache.device(), options)) {
    if (std::optional<Program> wider = even_rows(step)) step = std::move(*wider);
  }
  CompileOptions plain = without_techniques(options);
  if (!plain.profile) plain.profile = priced_device(options);
  Front front = Pool(step, cache, layout, plain, choices, workers).run();
  if (plain.host_budget && copies(plain)) {
    CompileOptions without = plain;
    without.host_budget = 0;
    Front other = Pool(step, cache, layout, without, choices, workers).run();
    for (FrontPoint& point : other.points) {
      point.options.host_budget = plain.host_budget;  // there is nothing to limit
      front.points.push_back(std::move(point));
    }
    front.keep_unbeaten();
    front.floor.bytes = std::min(front.floor.bytes, other.floor.bytes);
  }
  bound(front, step, layout, plain);
  return front;
}

}  // namespace pal
