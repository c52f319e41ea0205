// Counting, planning, and planning again.
#include "train/loop/sparse_steps.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/text.h"
#include "memory/passes/counted_maps.h"
#include "memory/passes/encode.h"
#include "ops/kernels/gate.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

constexpr int64_t kWindow = 100;   // runs, of which
constexpr size_t kLate = 2;        // with too little room have the step planned anew
constexpr int kMostOverflows = 4;  // of one map: it is dense from then on
// A plan is judged after so many times memory.ssdc_observe runs, by as many as that more.
constexpr int64_t kSettled = 9;
constexpr double kMuchLess = 0.875;  // of the room, to have the step planned anew
constexpr int64_t kLeastGain = 100;  // a sparse plan takes at least this part less: one per cent

std::string sparse_name(const std::string& name) { return name + "/sparse"; }
std::string uncounted_name(const std::string& name) { return name + "/uncounted"; }

int64_t count_in(Executable& ran, const CountedMap& map) {
  return *ran.output<int32_t>(map.output);
}
double density_in(Executable& ran, const CountedMap& map) {
  return double(count_in(ran, map)) / double(map.elements);
}

// The same results, where values are rounded.
bool rounds_alike(const Executable& a, const Executable& b) {
  return rounding_of(a.program()) == rounding_of(b.program());
}

// Bytes of a map with room for this density.
int64_t room_of(const Encodings& encodings, const CountedMap& map, double density) {
  const SsdcValues values = map.sparse ? map.sparse->values : SsdcValues::plain;
  const SsdcAttrs least = least_sparse(encodings, map.elements, map.type, density, values);
  return std::min(map.elements * bits(map.type) / 8, ssdc_bytes(least, map.elements, map.type));
}

}  // namespace

std::vector<CompileOptions> dense_options(const CompileOptions& options) {
  CompileOptions dense = options;
  dense.encode.ssdc = false, dense.encode.observe = true;
  if (!options.budget || dense.encode.is_lossy() || dense.recompute == Recompute::echo) {
    return {dense};
  }
  CompileOptions recomputed = dense;
  recomputed.recompute = Recompute::echo;
  return {dense, recomputed};
}

int64_t most_sparse_bytes(int64_t dense_bytes) { return dense_bytes - dense_bytes / kLeastGain; }

BudgetError dense_over(const std::string& what, size_t i) {
  return BudgetError((i > 0 ? "even with memory.recompute: echo, " : "") + what +
                     "; this is the plan without sparse encodings, which a step with more nonzeros "
                     "than expected falls back on (memory.encode: ssdc)");
}

Executable& SparseSteps::add(const std::string& name, const Program& recorded) {
  const std::vector<CompileOptions> options = dense_options(programs_.options());
  for (size_t i = 0;; ++i) {
    try {
      steps_[name].recomputes = i > 0;
      return programs_.add(name, recorded, options[i]);
    } catch (const BudgetError& error) {
      if (i + 1 == options.size()) throw dense_over(error.what(), i);
    }
  }
}

Executable& SparseSteps::choose(const std::string& name, const std::function<Program()>& recorded,
                                const std::function<void(Executable&)>& made) {
  Step& step = steps_[name];
  Executable& dense = *programs_.find(name);
  ++step.runs;
  if (step.tried && step.sparse) return *step.sparse;
  if (step.tried && step.uncounted && !is_judged(step)) return *step.uncounted;
  if (step.tried || step.runs <= *config_.ssdc_observe) return dense;
  step.tried = true, step.sparse = nullptr, step.late.clear();
  step.settled_since = step.runs, step.recent.clear();
  CompileOptions options = programs_.options();
  options.encode.density = step.densest;
  const auto stay_dense = [&](const std::string& why) -> Executable& {
    log_info(name + ": no map is kept sparse: " + why);
    step.uncounted = nullptr;
    if (counted_maps(dense.program()).empty()) return dense;
    CompileOptions uncounted = dense_options(programs_.options())[step.recomputes ? 1 : 0];
    uncounted.encode.observe = false, uncounted.must_fit = false;
    const int64_t bytes = dense.compiled().plan.device().bytes;
    Executable* plain = programs_.add_below(bytes + 1, uncounted_name(name), recorded(), uncounted);
    if (!plain || !rounds_alike(*plain, dense)) return dense;
    step.uncounted = plain;
    return *plain;
  };
  try {
    // A dense plan that recomputes takes longer; any other has to be the larger one.
    const int64_t dense_bytes = dense.compiled().plan.device().bytes;
    const int64_t most =
        step.recomputes ? std::numeric_limits<int64_t>::max() : most_sparse_bytes(dense_bytes);
    Executable* fewer = programs_.add_below(most, sparse_name(name), recorded(), options);
    if (!fewer) return stay_dense("that plan would not take a per cent less");
    Executable& sparse = *fewer;
    const auto maps = counted_maps(sparse.program());
    if (maps.empty()) return stay_dense("none would shrink");
    if (!rounds_alike(sparse, dense)) {
      return stay_dense("that plan would round other values than the dense one");
    }
    step.sparse = &sparse, step.sparse_since = step.runs;
    log_info(name + ": " + std::to_string(maps.size()) + " maps are kept sparse from run " +
             std::to_string(step.runs) +
             " on: " + format_bytes(dense.compiled().plan.device().bytes) + " -> " +
             format_bytes(sparse.compiled().plan.device().bytes));
    made(sparse);
    return sparse;
  } catch (const BudgetError& error) {
    return stay_dense(error.what());
  }
}

// The runs that judge a plan, which count.
bool SparseSteps::is_judged(const Step& step) const {
  return step.runs - step.settled_since >= kSettled * *config_.ssdc_observe;
}

std::vector<std::string> SparseSteps::overflows(const std::string& name, Executable& ran) {
  Step& step = steps_[name];
  if (&ran != step.sparse) return {};
  if (ran.output<Gate>(kOverflowOutput)->apply != 0) {
    judge(step, ran);
    return {};
  }
  std::vector<std::string> layers;
  for (const CountedMap& map : counted_maps(ran.program())) {
    if (count_in(ran, map) <= map.sparse->capacity) continue;
    layers.push_back(map.layer);
    ++step.overflows[map.origin];
  }
  step.late.push_back(step.runs), ++step.late_in_all;
  std::erase_if(step.late, [&](int64_t run) { return run + kWindow <= step.runs; });
  return layers;
}

void SparseSteps::observe(const std::string& name, Executable& ran) {
  Step& step = steps_[name];
  for (const CountedMap& map : counted_maps(ran.program())) {
    double& densest = step.densest[map.origin];
    densest = std::max(densest, density_in(ran, map));
    const auto overflowed = step.overflows.find(map.origin);
    if (overflowed != step.overflows.end() && overflowed->second >= kMostOverflows) densest = 1;
  }
  if (!step.sparse) judge(step, ran);
  if (step.late.size() >= kLate) step.tried = false;
}

// A map that ever had too little room keeps what it has: so a step is planned anew for fewer bytes
// only so often.
void SparseSteps::judge(Step& step, Executable& ran) const {
  const int64_t observe = *config_.ssdc_observe, age = step.runs - step.settled_since;
  if (!step.tried || !is_judged(step)) return;
  const std::vector<CountedMap> maps = counted_maps(ran.program());
  for (const CountedMap& map : maps) {
    double& densest = step.recent[map.origin];
    densest = std::max(densest, density_in(ran, map));
  }
  if (age + 1 < (kSettled + 1) * observe) return;
  std::map<ValueId, double> less = step.densest;
  int64_t now = 0, then = 0;
  const Encodings& encodings = programs_.options().encode;
  for (const CountedMap& map : maps) {
    double& densest = less[map.origin];
    now += room_of(encodings, map, densest);
    if (!step.overflows.contains(map.origin)) densest = step.recent[map.origin];
    then += room_of(encodings, map, densest);
  }
  step.settled_since = step.runs + 1, step.recent.clear();
  if (double(then) > kMuchLess * double(now)) return;
  step.densest = std::move(less), step.tried = false;
}

std::vector<std::string> SparseSteps::described() const {
  std::vector<std::string> lines;
  for (const auto& [name, step] : steps_) {
    std::string line = name + ": ";
    if (step.sparse) {
      line += std::to_string(counted_maps(step.sparse->program()).size()) +
              " maps are kept sparse since run " + std::to_string(step.sparse_since) + ", " +
              format_bytes(programs_.find(name)->compiled().plan.device().bytes) + " -> " +
              format_bytes(step.sparse->compiled().plan.device().bytes);
    } else {
      line += "no map is kept sparse";
    }
    line += "; of " + std::to_string(step.runs) + " runs " + std::to_string(step.late_in_all) +
            " had too little room and were repeated on the dense plan";
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<MapDensity> SparseSteps::densities(Executable& ran) const {
  std::vector<MapDensity> out;
  for (const CountedMap& map : counted_maps(ran.program())) {
    MapDensity row{.value = map.origin,
                   .layer = map.layer,
                   .elements = map.elements,
                   .density = density_in(ran, map)};
    if (map.sparse) {
      row.form = name_of(map.sparse->form);
      row.capacity = double(map.sparse->capacity) / double(map.elements);
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace pal
