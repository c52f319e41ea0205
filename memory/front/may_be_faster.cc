// Each of the three is tried, without a placement.
#include "memory/front/may_be_faster.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "memory/compile.h"
#include "memory/front/choose.h"
#include "memory/front/fused_clones.h"
#include "memory/pass.h"
#include "memory/passes/forms.h"
#include "memory/price/predict.h"

namespace pal {
namespace {

bool rerun_may_pay(const Program& recorded, const CompileOptions& plain) {
  if (!plain.fuse_recompute) return false;
  const DeviceProfile device = priced_device(plain);
  RecomputeOptions nothing_heavy = plain.recompute_options;
  nothing_heavy.heavy = std::numeric_limits<double>::infinity();
  const Program step = before_clones(recorded, plain);
  const StepView view(step, nothing_heavy);
  const StepTimes times = step_times(step, device, fusions_of(plain));
  const std::vector<FusedClones> all = fused_clones(view, times, device, fusions_of(plain));
  return std::any_of(all.begin(), all.end(), [&](const FusedClones& one) {
    double again = 0;
    for (const NodeId n : one.nodes) again += times.alone[n];
    return one.saved_ms > again;
  });
}

}  // namespace

CompileOptions fused_alone(CompileOptions plain) {
  plain.recompute = Recompute::chosen, plain.recompute_options.chosen.clear();
  return plain;
}

bool may_be_faster(const Program& recorded, KernelCache& cache, const StateLayout& layout,
                   const CompileOptions& plain) {
  const auto ms_of = [&](const CompileOptions& options) {
    Compiled passed;
    least_bytes(recorded, cache, layout, options, &passed);
    return predict(passed.program, priced_device(options), &passed.storages).step_ms;
  };
  const double plain_ms = ms_of(plain);
  const auto is_faster = [&](const CompileOptions& options) { return ms_of(options) < plain_ms; };
  if (plain.fuse_recompute && is_faster(fused_alone(plain))) return true;
  CompileOptions bits = plain;
  bits.encode = kBits;
  return is_faster(bits) || rerun_may_pay(recorded, plain);
}

}  // namespace pal
