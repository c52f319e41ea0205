// Candidates, their judgement, and the placement of those on the front.
#include "memory/front/pool.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "memory/front/bound.h"
#include "memory/front/choose.h"
#include "memory/front/deep.h"
#include "memory/front/maps.h"
#include "memory/front/may_be_faster.h"
#include "memory/front/unbeaten.h"
#include "memory/pass.h"
#include "memory/passes/even_rows.h"
#include "memory/passes/forms.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

constexpr double kFrontOverheads[] = {0.02, 0.05, 0.09, 0.15, 0.3};
// What is chosen is many plans near each other. Each is placed by the greedy orders, and looked at
// again, and then not for long, where that may matter: where it could come down by so large a part
// of its bytes, and what else there is for as few takes so much longer. Techniques alone are placed
// as the user who asks for one has them placed.
constexpr PlaceEffort kGreedily{.nodes = 0, .slack = 0.001},
    kQuickly{.nodes = 30'000, .slack = 0.001};
constexpr double kWorthBytes = 0.005, kWorthMs = 0.005;
// Where segments are beaten by so much as they are counted, passes are not asked.
constexpr double kFarBelow = 0.985;

// Of the exact plans so many, from the least on, are tried with rounded maps.
constexpr size_t kRoundedPlans = 8;

// Of the plans found, those of the fewest bytes are tried with copies planned for so many sizes
// between theirs and the floor; in all so many times, fewer in steps of many nodes.
constexpr int kSwappedSizes = 6, kFewestSwapped = 4, kMostSwapped = 18;
constexpr size_t kSwappedNodes = 20'000;

// A plan that is not placed yet.
struct Unplaced {
  CompileOptions options;
  std::string from;
  int64_t alive = 0;
  double ms = 0;
  std::shared_ptr<const Compiled> passed;
};

bool faster(const Unplaced& a, const Unplaced& b) {
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
       const CompileOptions& options, const FrontChoices& choices)
      : recorded_(recorded),
        cache_(cache),
        layout_(layout),
        plain_(without_techniques(options)),
        choices_(choices),
        copies_(copies(plain_)) {
    for (ValueId v : recorded_.values.ids()) recorded_.value(v).origin = v;
  }

  Front run() {
    Unplaced none = judged(plain_, "none");
    foreign_ = none.alive - peak_of(none.passed->storages,
                                    lifetimes_of(none.passed->program, none.passed->storages))
                                .bytes;
    Front front{.floor = floor_of(*none.passed), .plain_ms = none.ms};
    plain_ms_ = none.ms;
    if (!may_be_faster(recorded_, cache_, layout_, plain_)) least_ms_ = none.ms;
    front.alone.push_back({"none", none.alive, none.ms});
    pool_.push_back(std::move(none));
    if (plain_.fuse_recompute) add(fused_alone(plain_), "fused");
    add_chosen(front.floor.bytes);
    place_pool();
    add_deep();
    place_pool();
    place_again();
    if (copies_) add_swapped(front.floor.bytes);
    place_pool();
    add_techniques();
    for (const Unplaced& each : pool_) front.alone.push_back({each.from, each.alive, each.ms});
    place_pool();
    for (Placed& each : placed_) front.points.push_back(std::move(each.point));
    front.keep_unbeaten();
    // A node may lie in place, or be fused otherwise, where others keep nothing for later.
    front.floor.bytes = std::min(front.floor.bytes, front.points.front().bytes);
    return front;
  }

 private:
  Unplaced judged(CompileOptions options, std::string from, PassMemory* memory = nullptr) {
    auto passed = std::make_shared<Compiled>();
    Unplaced out{.options = std::move(options), .from = std::move(from)};
    out.alive = least_bytes(recorded_, cache_, layout_, out.options, passed.get(), memory);
    out.ms = predict(passed->program, *plain_.profile, &passed->storages).step_ms;
    out.passed = std::move(passed);
    return out;
  }
  // Nothing is kept of what is beaten already.
  void add(CompileOptions options, std::string from, PassMemory* memory = nullptr) {
    pool_.push_back(judged(std::move(options), std::move(from), memory));
    if (is_beaten(pool_.back())) pool_.back().passed.reset();
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

  void add_techniques() {
    PassMemory memory;
    CompileOptions one = plain_;
    for (const Recompute method : {Recompute::mirror, Recompute::sqrt}) {
      one.recompute = method;
      add(one, to_string(method), &memory);
    }
    one.recompute = Recompute::echo;
    for (const double part : kFrontOverheads) {
      one.recompute_options.overhead = part;
      add(one, echo_at(part), &memory);
      if (!copies_) continue;
      CompileOptions swapped = one;
      swapped.swap.method = Swap::planned;
      add(swapped, echo_at(part) + ", swapped", &memory);
    }
    one = plain_;
    one.encode = kBits;
    add(one, "bits");
    if (choices_.lossy) add_rounded();
    if (!copies_) return;
    one = plain_;
    for (const Swap method : {Swap::naive, Swap::vdnn, Swap::planned}) {
      one.swap.method = method;
      add(one, "swap " + std::string(name_of(method)));
    }
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
      options.swap.method = Swap::planned, options.place_effort = kGreedily;
      const double whole = double(floor) / double(point.bytes);
      for (int i = 1; i <= kSwappedSizes && tries-- > 0; ++i) {
        options.budget = int64_t(double(point.bytes) * std::pow(whole, double(i) / kSwappedSizes));
        add(options, point.from + ", swapped");
        if (pool_.back().alive > *options.budget) break;  // as low as copies bring it
      }
    }
  }
  // Plans that no other beats, so far as they are placed; the least last.
  std::vector<FrontPoint> found() const {
    std::vector<FrontPoint> points;
    for (const Placed& each : placed_) points.push_back(each.point);
    return unbeaten(std::move(points), &FrontPoint::step_ms, &FrontPoint::bytes);
  }
  // Each format alone, with what a technique makes again, and over some of the exact plans.
  void add_rounded() {
    const std::vector<FrontPoint> exact = found();
    const size_t every = exact.size() / kRoundedPlans + 1;
    CompileOptions one = plain_;
    one.encode = kBits;
    for (size_t i = 0; i < names(Dpr{}).size(); ++i) {
      one.encode.dpr = Dpr(i);
      const std::string name = name_of(*one.encode.dpr);
      one.recompute = Recompute::none;
      add(one, name);
      for (const Recompute method : {Recompute::echo, Recompute::sqrt}) {
        one.recompute = method;
        add(one, std::string(to_string(method)) + ", " + name);
      }
      for (size_t k = 0; k < exact.size(); k += every) {
        const FrontPoint& point = exact[exact.size() - 1 - k];
        CompileOptions over = point.options;
        over.encode = kBits, over.encode.dpr = one.encode.dpr;
        over.place_effort = plain_.place_effort;
        add(over, point.from + ", " + name);
      }
    }
  }
  static std::string echo_at(double part) {
    return "echo " + std::to_string(int(std::lround(100 * part))) + " %";
  }

  // Choices by the sketch, down to the floor.
  void add_chosen(int64_t least) {
    CompileOptions chosen = plain_;
    chosen.recompute = Recompute::chosen, chosen.place_effort = kGreedily;
    for (Chosen& each :
         choose_plans(recorded_, chosen, link_for_copies(plain_), least - foreign_)) {
      chosen.recompute_options.chosen = std::move(each.again);
      chosen.swap = {};
      if (!each.away.empty()) {
        chosen.swap = {.method = Swap::planned, .chosen = std::move(each.away)};
      }
      chosen.budget = each.limit + foreign_;
      add(chosen, "chosen for " + format_bytes(*chosen.budget));
    }
  }

  void add_deep() {
    CompileOptions deep = plain_;
    deep.recompute = Recompute::reruns, deep.place_effort = kGreedily;
    for (DeepPlan& plan : deep_plans(recorded_, plain_, *plain_.profile)) {
      // What passes make of it is not far from that.
      const Unplaced about{.alive = foreign_ + int64_t(kFarBelow * double(plan.least)),
                           .ms = kFarBelow * (plain_ms_ + plan.added_ms)};
      if (is_beaten(about)) continue;
      deep.recompute_options.reruns = std::move(plan.reruns);
      add(deep, "segments");
    }
  }

  // By some plan of as few bytes as this one has at least.
  bool is_beaten(const Unplaced& one) const {
    return std::any_of(placed_.begin(), placed_.end(), [&](const Placed& other) {
      return other.point.bytes <= one.alive && other.point.step_ms <= one.ms;
    });
  }

  // The fastest first, and none that is beaten.
  void place_pool() {
    std::stable_sort(pool_.begin(), pool_.end(), faster);
    for (Unplaced& each : pool_) {
      if (each.ms < least_ms_ || is_beaten(each)) continue;
      const Plan plan = plan_passed(*each.passed, layout_, each.options);
      FrontPoint point{.options = std::move(each.options),
                       .from = std::move(each.from),
                       .bytes = plan.device().bytes,
                       .step_ms = each.ms};
      count_maps(*each.passed, plan, point);
      const bool greedily = point.options.place_effort.nodes == kGreedily.nodes;
      if (!greedily || !is_above(point.bytes, each.alive)) each.passed.reset();
      placed_.push_back({std::move(point), each.alive, std::move(each.passed)});
    }
    pool_.clear();
  }
  static bool is_above(int64_t bytes, int64_t alive) {
    return double(bytes) > (1 + kWorthBytes) * double(alive);
  }

  // The fastest first.
  void place_again() {
    std::stable_sort(placed_.begin(), placed_.end(), [](const Placed& a, const Placed& b) {
      return a.point.step_ms < b.point.step_ms;
    });
    for (Placed& each : placed_) {
      const std::shared_ptr<const Compiled> passed = std::exchange(each.passed, nullptr);
      if (!passed || !may_matter(each)) continue;
      FrontPoint& point = each.point;
      CompileOptions options = point.options;
      options.place_effort = kQuickly;
      const Plan plan = plan_passed(*passed, layout_, options);
      if (plan.device().bytes >= point.bytes) continue;
      point.options = std::move(options), point.bytes = plan.device().bytes;
      point.host = plan.host().bytes;
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
  std::vector<Unplaced> pool_;
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
                 const CompileOptions& options, const FrontChoices& choices) {
  if (options.dynamic.manager != Manager::fixed) {
    throw UsageError("[front] memory.manager: " + name_of(options.dynamic.manager) +
                     " decides while it plans; leave it out");
  }
  // A card's plans begin so, and no bound may be that of another step.
  std::optional<Program> wider;
  if (is_card(cache.device(), options)) wider = even_rows(recorded);
  const Program& step = wider ? *wider : recorded;
  CompileOptions plain = without_techniques(options);
  if (!plain.profile) plain.profile = priced_device(options);
  Front front = Pool(step, cache, layout, plain, choices).run();
  if (plain.host_budget && copies(plain)) {
    CompileOptions without = plain;
    without.host_budget = 0;
    Front other = Pool(step, cache, layout, without, choices).run();
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
