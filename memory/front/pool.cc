// Candidates, their judgement, and the placement of those on the front.
#include "memory/front/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "memory/front/bound.h"
#include "memory/front/dual.h"
#include "memory/pass.h"
#include "memory/passes/forms.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

constexpr double kFrontOverheads[] = {0.02, 0.05, 0.09, 0.15, 0.3};
constexpr int kFrontTargets = 32;
// Iterates a target: as many as this many nodes allow, within limits.
constexpr size_t kDualNodes = 40'000;
constexpr int kFewestIterates = 3, kMostIterates = 10;
// Every so many targets is reached by copies too: placement decides there, and takes long.
constexpr size_t kSwappedEvery = 4;
// Larger targets from which a target is reached by copies, as steps of the grid.
constexpr int kStepsUp[] = {2, 8};

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

// The fastest first, each with fewer bytes than all before it.
std::vector<DualIterate> unbeaten(std::vector<DualIterate> iterates) {
  std::stable_sort(iterates.begin(), iterates.end(), [](const auto& a, const auto& b) {
    return a.ms != b.ms ? a.ms < b.ms : a.bytes < b.bytes;
  });
  std::vector<DualIterate> out;
  for (DualIterate& each : iterates) {
    if (out.empty() || each.bytes < out.back().bytes) out.push_back(std::move(each));
  }
  return out;
}

// What is read after the forward phase, by how it got there.
void count_maps(const Compiled& step, FrontPoint& point) {
  const Program& p = step.program;
  const Readers readers(p);
  ByStorage<char> counted(step.storages.list.size(), 0);
  for (ValueId v : p.values.ids()) {
    const Value& value = p.value(v);
    const StorageId s = step.storages.of[v];
    if (value.producer == kNone || s == kNone || step.storages[s].persistent) continue;
    const Phase made = p.node(value.producer).phase;
    if (made == Phase::offload) point.offloaded += value.spec.bytes();
    const bool later = std::any_of(readers[v].begin(), readers[v].end(), [&](NodeId r) {
      const Phase phase = p.node(r).phase;
      return phase == Phase::backward || phase == Phase::recompute || phase == Phase::decode;
    });
    if (!later || std::exchange(counted[s], 1)) continue;
    const int64_t bytes = step.storages[s].bytes;
    if (made == Phase::forward) point.kept += bytes;
    if (made == Phase::recompute) point.recomputed += bytes;
    if (made == Phase::encode) point.encoded += bytes;
  }
  point.host = step.plan.host().bytes;
}

class Pool {
 public:
  Pool(const Program& recorded, KernelCache& cache, const StateLayout& layout,
       const CompileOptions& options)
      : recorded_(recorded), cache_(cache), layout_(layout), plain_(options) {
    plain_.recompute = Recompute::none, plain_.encode = {}, plain_.swap.method = Swap::none;
    plain_.budget.reset(), plain_.must_fit = false;
    if (!plain_.profile) plain_.profile = priced_device(options);
    for (ValueId v : recorded_.values.ids()) recorded_.value(v).origin = v;
  }

  Front run() {
    Compiled passed;
    const Unplaced none = judged(plain_, "none", &passed);
    pool_.push_back(none);
    Front front{.floor = floor_of(passed), .plain_ms = none.ms};
    add_techniques();
    add_priced(none.alive, front.floor.bytes);
    place(front);
    bound(front);
    return front;
  }

 private:
  void bound(Front& front) const {
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
    if (!has_link()) return;
    one = plain_;
    for (const Swap method : {Swap::naive, Swap::vdnn, Swap::planned}) {
      one.swap.method = method;
      add(one, "swap " + std::string(name_of(method)));
    }
  }
  static std::string echo_at(double part) {
    return "echo " + std::to_string(int(std::lround(100 * part))) + " %";
  }

  void add_priced(int64_t most, int64_t least) {
    CompileOptions priced = plain_;
    priced.recompute = Recompute::priced;
    Dual dual(recorded_, priced, *plain_.profile);
    const int64_t saved = std::max<int64_t>(dual.plain_bytes() - most, 0);  // by later passes
    const int iterations =
        std::clamp(int(kDualNodes / (recorded_.nodes.size() + 1)), kFewestIterates, kMostIterates);
    std::vector<int64_t> targets;
    std::vector<DualIterate> iterates;
    for (int k = 1; k <= kFrontTargets; ++k) {
      const double part = std::pow(double(least) / double(most), double(k) / kFrontTargets);
      targets.push_back(int64_t(double(most) * part));
      for (DualIterate& each : dual.iterate(targets.back() + saved, iterations)) {
        iterates.push_back(std::move(each));
      }
    }
    const size_t first = pool_.size();
    for (DualIterate& each : unbeaten(std::move(iterates))) {
      priced.recompute_options.prices = std::move(each.prices);
      add(priced, "prices");
    }
    if (has_link()) add_swapped(targets, first);
  }

  // Down to some targets by copies: from the step as it was recorded, and from priced steps of
  // larger targets.
  void add_swapped(const std::vector<int64_t>& targets, size_t first) {
    const std::vector<Unplaced> priced(pool_.begin() + std::ptrdiff_t(first), pool_.end());
    for (size_t k = kSwappedEvery - 1; k < targets.size(); k += kSwappedEvery) {
      std::vector<const Unplaced*> from{pool_.data()};
      for (const int up : kStepsUp) {
        if (size_t(up) > k) break;
        const Unplaced* best = nullptr;
        for (const Unplaced& each : priced) {
          if (each.alive <= targets[k - size_t(up)] && (!best || faster(each, *best))) best = &each;
        }
        if (best && best->alive > targets[k] &&
            std::find(from.begin(), from.end(), best) == from.end()) {
          from.push_back(best);
        }
      }
      std::vector<Unplaced> made;
      for (const Unplaced* base : from) {
        CompileOptions options = base->options;
        options.swap.method = Swap::planned, options.budget = targets[k];
        made.push_back(judged(std::move(options), base->from + ", swapped"));
      }
      for (Unplaced& each : made) pool_.push_back(std::move(each));
    }
  }

  void place(Front& front) {
    std::stable_sort(pool_.begin(), pool_.end(), faster);
    int64_t least = std::numeric_limits<int64_t>::max();
    for (Unplaced& each : pool_) {
      if (each.alive >= least) continue;
      const Compiled step = compile(recorded_, cache_, layout_, each.options);
      FrontPoint point{.options = std::move(each.options),
                       .from = std::move(each.from),
                       .bytes = step.plan.device().bytes,
                       .step_ms = step.time->step_ms};
      if (point.bytes >= least) continue;
      least = point.bytes;
      count_maps(step, point);
      front.points.push_back(std::move(point));
    }
    std::reverse(front.points.begin(), front.points.end());
  }

  Program recorded_;
  KernelCache& cache_;
  const StateLayout& layout_;
  CompileOptions plain_;
  std::vector<Unplaced> pool_;
};

}  // namespace

const FrontPoint* Front::pick(int64_t budget) const {
  const FrontPoint* fastest = nullptr;
  for (const FrontPoint& point : points) {
    if (point.bytes <= budget) fastest = &point;
  }
  return fastest;
}

Front make_front(const Program& recorded, KernelCache& cache, const StateLayout& layout,
                 const CompileOptions& options) {
  if (options.dynamic.manager != Manager::fixed) {
    throw UsageError("[front] memory.manager: " + name_of(options.dynamic.manager) +
                     " decides while it plans; leave it out");
  }
  return Pool(recorded, cache, layout, options).run();
}

}  // namespace pal
