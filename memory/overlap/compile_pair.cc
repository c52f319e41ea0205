// Passes, shifts, a plan, and the queues last.
#include "memory/overlap/compile_pair.h"

#include <algorithm>
#include <cstdio>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/overlap/join.h"
#include "memory/pass.h"
#include "memory/queues/waits.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

constexpr int kShifts = 16;  // that are tried
constexpr double kAsFast = 1.01;

// A pair before its shift is chosen.
class Pair {
 public:
  Pair(const Program& first, const Program& second, KernelCache& cache, const StateLayout& layout,
       const CompileOptions& options, PairQueues queues)
      : cache_(cache), layout_(layout), options_(options), queues_(queues) {
    if (options.swap.method != Swap::none || options.dynamic.manager != Manager::fixed) {
      throw ProgramError(
          "[overlap] micro-batches are not overlapped where feature maps go to the host's memory, "
          "or a manager decides");
    }
    Compiled alone;
    out_.larger_bytes = least_bytes(first, cache, layout, options, &alone);
    nodes_of_first_ = alone.program.node_count();
    Compiled other;
    out_.larger_bytes =
        std::max(out_.larger_bytes, least_bytes(second, cache, layout, options, &other));
    joined_ = join_micro_batches(alone.program, other.program);
    workspace_ = workspace_bytes(prepare_all(joined_, cache));
    demands_ = demands_of(joined_, priced_device(options));
    out_.one_by_one_ms = one_by_one_ms(demands_), out_.least_ms = pal::least_ms(joined_, demands_);
    foreign_ = layout.bytes() + layout.spare_inputs(joined_);
    for (const StateSlot& slot : joined_.state) {
      const Value& value = joined_.value(slot.start);
      if (value.space == Space::device) foreign_ -= align_up(value.spec.bytes());
    }
    for (int i = 0; i < kShifts; ++i) try_shift(double(i) / kShifts);
  }

  CompiledPair compile() {
    const Clock::time_point start = Clock::now();
    std::vector<PairShift> order = out_.shifts;
    const auto better = [&](const PairShift& a, const PairShift& b) { return rank(a) < rank(b); };
    std::sort(order.begin(), order.end(), better);
    int64_t least = INT64_MAX;
    for (const PairShift& shift : order) {
      least = std::min(least, shift.alive);
      if (shift.alive > budget()) continue;
      make(shift);
      const int64_t bytes = out_.step.plan.device().bytes;
      if (bytes <= budget()) {
        report(seconds_since(start));
        return std::move(out_);
      }
      least = std::min(least, bytes);
    }
    throw BudgetError("two micro-batches side by side need at least " + format_bytes(least) +
                      ", the budget is " + format_bytes(budget()) +
                      "; raise memory.budget, lower the batch, or set "
                      "train.overlap_micro_batches: false");
  }

 private:
  int64_t budget() const {
    return options_.budget && options_.must_fit ? *options_.budget : INT64_MAX;
  }

  // The joined program where the second waits until the first has run so long.
  Program shifted(double shift) const {
    Program p = joined_;
    if (nodes_of_first_ == p.node_count()) return p;
    double first_ms = 0, ms = 0;
    for (NodeId n = 0; n < nodes_of_first_; ++n) first_ms += ms_of(n);
    NodeId until = kNone;
    for (NodeId n = 0; n < nodes_of_first_ && ms < shift * first_ms; ++n) ms += ms_of(n), until = n;
    if (until != kNone) p.node(nodes_of_first_).waits.push_back(until);
    return p;
  }
  double ms_of(NodeId n) const { return demands_[n].launch_ms + demands_[n].work_ms; }

  Program laid_out(const Program& p, const SideBySide& run) const {
    return queues_ == PairQueues::one ? on_one_queue(p, run) : in_time(p, run);
  }
  ByNode<int64_t> workspace_in(const SideBySide& run) const {
    ByNode<int64_t> out;
    for (NodeId n : run.order) out.push_back(workspace_[n]);
    return out;
  }

  void try_shift(double shift) {
    const Program p = shifted(shift);
    const SideBySide run = run_side_by_side(p, demands_);
    const int64_t alive =
        foreign_ + peak_bytes(laid_out(p, run), workspace_in(run), storage_options(options_));
    out_.shifts.push_back({shift, run.ms, alive});
  }

  // By time, where it differs, and then by bytes.
  std::pair<double, int64_t> rank(const PairShift& s) const {
    double best = s.ms;
    for (const PairShift& other : out_.shifts) {
      if (other.alive <= budget()) best = std::min(best, other.ms);
    }
    return {s.ms <= kAsFast * best ? best : s.ms, s.alive};
  }

  void make(const PairShift& at) {
    const Program p = shifted(at.shift);
    const SideBySide run = run_side_by_side(p, demands_);
    Compiled& c = out_.step;
    c.program = laid_out(p, run);
    verify(c.program);
    c.storages = assign_storages(c.program, workspace_in(run), storage_options(options_));
    c.plan = make_plan(c.program, c.storages, layout_);
    if (options_.budget && c.plan.device().bytes > *options_.budget &&
        c.plan.device().lower_bound <= *options_.budget) {
      Plan within = make_plan(c.program, c.storages, layout_, *options_.budget);
      if (within.device().bytes < c.plan.device().bytes) c.plan = std::move(within);
    }
    if (queues_ == PairQueues::two) {
      c.program = with_waits_for_bytes(p, run, c.program, c.storages, c.plan);
      verify(c.program);
    }
    check_plan(c.program, c.storages, c.plan);
    c.kernels = prepare_all(c.program, cache_);
    c.encode = options_.encode;
    out_.at = at;
  }

  void report(double seconds) {
    Compiled& c = out_.step;
    char note[160];
    std::snprintf(note, sizeof note,
                  "the second begins after %.0f %% of the first; predicted %.2f ms, one behind the "
                  "other %.2f, no way below %.2f",
                  100 * out_.at.shift, out_.at.ms, out_.one_by_one_ms, out_.least_ms);
    c.passes.push_back({.name = "overlap",
                        .before_bytes = out_.larger_bytes,
                        .after_bytes = c.plan.device().bytes,
                        .seconds = seconds,
                        .note = note});
    c.seconds = seconds;
    if (!options_.profile) return;
    const bool beside = queues_ == PairQueues::two;
    c.time = StepTime{.profile = options_.profile->name,
                      .measured = options_.profile->measured,
                      .step_ms = beside ? out_.at.ms : out_.one_by_one_ms};
  }

  KernelCache& cache_;
  const StateLayout& layout_;
  const CompileOptions& options_;
  const PairQueues queues_;
  NodeId nodes_of_first_ = 0;
  Program joined_;
  ByNode<int64_t> workspace_;
  ByNode<NodeDemand> demands_;
  int64_t foreign_ = 0;  // bytes of the set's state that neither carries, and of its larger slots
  CompiledPair out_;
};

}  // namespace

CompiledPair compile_pair(const Program& first, const Program& second, KernelCache& cache,
                          const StateLayout& layout, const CompileOptions& options,
                          PairQueues queues) {
  const Clock::time_point start = Clock::now();
  CompiledPair made = Pair(first, second, cache, layout, options, queues).compile();
  made.step.seconds = seconds_since(start);
  return made;
}

}  // namespace pal
