// Candidates, their judgement, and the placement of those on the front.
#include "memory/front/pool.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "memory/front/bound.h"
#include "memory/front/choose.h"
#include "memory/front/deep.h"
#include "memory/front/maps.h"
#include "memory/pass.h"
#include "memory/passes/forms.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

constexpr double kFrontOverheads[] = {0.02, 0.05, 0.09, 0.15, 0.3};
// A plan that is not placed yet.
struct Unplaced {
  CompileOptions options;
  std::string from;
  int64_t alive = 0;
  double ms = 0;
};

bool faster(const Unplaced& a, const Unplaced& b) {
  return a.ms != b.ms ? a.ms < b.ms : a.alive < b.alive;
}

void count_maps(const Compiled& step, FrontPoint& point) {
  each_map(step, [&](ValueId, MapIs is, int64_t bytes) {
    int64_t* const of[] = {&point.kept, &point.recomputed, &point.encoded, &point.offloaded};
    *of[size_t(is)] += bytes;
  });
  point.host = step.plan.host().bytes;
}

class Pool {
 public:
  Pool(const Program& recorded, KernelCache& cache, const StateLayout& layout,
       const CompileOptions& options, const FrontChoices& choices)
      : recorded_(recorded),
        cache_(cache),
        layout_(layout),
        plain_(without_techniques(options)),
        choices_(choices) {
    if (!plain_.profile) plain_.profile = priced_device(options);
    for (ValueId v : recorded_.values.ids()) recorded_.value(v).origin = v;
  }

  Front run() {
    Compiled passed;
    const Unplaced none = judged(plain_, "none", &passed);
    pool_.push_back(none);
    Front front{.floor = floor_of(passed), .plain_ms = none.ms};
    add_chosen(front.floor.bytes);
    add_techniques();
    for (const Unplaced& each : pool_) front.alone.push_back({each.from, each.alive, each.ms});
    add_deep();
    place_techniques();
    front.points = unbeaten();
    bound(front);
    return front;
  }

 private:
  void bound(Front& front) const {
    if (plain_.profile->times) return;  // bounds are of the profile's roofline
    std::vector<int64_t> bytes;
    for (const FrontPoint& point : front.points) bytes.push_back(point.bytes);
    const std::vector<double> ms = bounds_ms(recorded_, layout_, plain_, *plain_.profile, bytes);
    for (size_t i = 0; i < ms.size(); ++i) front.points[i].bound_ms = ms[i];
  }
  Unplaced judged(CompileOptions options, std::string from, Compiled* passed = nullptr) {
    Compiled own;
    if (!passed) passed = &own;
    Unplaced out{.options = std::move(options), .from = std::move(from)};
    out.alive = least_bytes(recorded_, cache_, layout_, out.options, passed);
    out.ms = predict(passed->program, *plain_.profile, &passed->storages).step_ms;
    return out;
  }
  void add(CompileOptions options, std::string from) {
    pool_.push_back(judged(std::move(options), std::move(from)));
  }

  FrontFloor floor_of(const Compiled& step) const {
    const ByStorage<Lifetime> lifetimes = lifetimes_of(step.program, step.storages);
    int64_t fixed = 0;
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

  bool has_link() const { return plain_.profile->link > 0; }

  void add_techniques() {
    CompileOptions one = plain_;
    for (const Recompute method : {Recompute::mirror, Recompute::sqrt}) {
      one.recompute = method;
      add(one, to_string(method));
    }
    one.recompute = Recompute::echo;
    for (const double part : kFrontOverheads) {
      one.recompute_options.overhead = part;
      add(one, echo_at(part));
      if (!has_link()) continue;
      CompileOptions swapped = one;
      swapped.swap.method = Swap::planned;
      add(swapped, echo_at(part) + ", swapped");
    }
    one = plain_;
    one.encode = kBits;
    add(one, "bits");
    if (choices_.lossy) add_rounded();
    if (!has_link()) return;
    one = plain_;
    for (const Swap method : {Swap::naive, Swap::vdnn, Swap::planned}) {
      one.swap.method = method;
      add(one, "swap " + std::string(name_of(method)));
    }
  }
  // Each format alone, and the smallest with what is made again on top.
  void add_rounded() {
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
    }
  }
  static std::string echo_at(double part) {
    return "echo " + std::to_string(int(std::lround(100 * part))) + " %";
  }

  // Choices by the sketch, down to the floor.
  void add_chosen(int64_t least) {
    CompileOptions chosen = plain_;
    chosen.recompute = Recompute::chosen;
    for (Chosen& each : choose_plans(recorded_, chosen, *plain_.profile, least)) {
      chosen.recompute_options.chosen = std::move(each.again);
      chosen.swap = {};
      if (!each.away.empty()) {
        chosen.swap = {.method = Swap::planned, .chosen = std::move(each.away)};
      }
      chosen.budget = each.limit;
      place(chosen, "chosen for " + format_bytes(each.limit));
    }
  }

  void add_deep() {
    CompileOptions deep = plain_;
    deep.recompute = Recompute::reruns;
    for (DeepPlan& plan : deep_plans(recorded_, plain_, *plain_.profile)) {
      deep.recompute_options.reruns = std::move(plan.reruns);
      add(deep, "segments");
    }
  }

  // Adds a point.
  const FrontPoint& place(const CompileOptions& options, std::string from) {
    const Compiled step = compile(recorded_, cache_, layout_, options);
    FrontPoint point{.options = options,
                     .from = std::move(from),
                     .bytes = step.plan.device().bytes,
                     .step_ms = step.time->step_ms};
    count_maps(step, point);
    placed_.push_back(std::move(point));
    return placed_.back();
  }

  // Techniques are placed where no plan has both fewer bytes than they could and less time.
  void place_techniques() {
    std::stable_sort(pool_.begin(), pool_.end(), faster);
    for (const Unplaced& each : pool_) {
      const bool beaten = std::any_of(placed_.begin(), placed_.end(), [&](const FrontPoint& point) {
        return point.bytes <= each.alive && point.step_ms <= each.ms;
      });
      if (!beaten) place(each.options, each.from);
    }
  }

  std::vector<FrontPoint> unbeaten() {
    std::stable_sort(placed_.begin(), placed_.end(), [](const FrontPoint& a, const FrontPoint& b) {
      return a.step_ms != b.step_ms ? a.step_ms < b.step_ms : a.bytes < b.bytes;
    });
    std::vector<FrontPoint> points;
    for (FrontPoint& point : placed_) {
      if (points.empty() || point.bytes < points.back().bytes) points.push_back(std::move(point));
    }
    std::reverse(points.begin(), points.end());
    return points;
  }

  Program recorded_;
  KernelCache& cache_;
  const StateLayout& layout_;
  CompileOptions plain_;
  FrontChoices choices_;
  std::vector<Unplaced> pool_;
  std::vector<FrontPoint> placed_;
};

}  // namespace

CompileOptions without_techniques(CompileOptions options) {
  options.recompute = Recompute::none, options.recompute_options = {};
  options.encode = {}, options.swap = {.vdnn = options.swap.vdnn};
  options.budget.reset(), options.must_fit = false;
  return options;
}

const FrontPoint* Front::pick(int64_t budget) const {
  const FrontPoint* fastest = nullptr;
  for (const FrontPoint& point : points) {
    if (point.bytes <= budget) fastest = &point;
  }
  return fastest;
}

Front make_front(const Program& recorded, KernelCache& cache, const StateLayout& layout,
                 const CompileOptions& options, const FrontChoices& choices) {
  if (options.dynamic.manager != Manager::fixed) {
    throw UsageError("[front] memory.manager: " + name_of(options.dynamic.manager) +
                     " decides while it plans; leave it out");
  }
  return Pool(recorded, cache, layout, options, choices).run();
}

}  // namespace pal
