// The order of the passes, and the report of each.
#include "memory/compile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>

#include "core/verify.h"
#include "memory/budget.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/passes/fuse_updates.h"
#include "memory/passes/layouts.h"
#include "memory/plan/report.h"
#include "memory/schedule/delay_forward.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

constexpr bool kTrades = true;  // a pass that pays for bytes with time

constexpr NodeId kLarge = 4000;  // nodes

class Compiler {
 public:
  Compiler(Program program, KernelCache& cache, const StateLayout& layout,
           const CompileOptions& options)
      : cache_(cache), layout_(layout), options_(options) {
    out_.program = std::move(program);
  }

  Compiled run() {
    const double start = now();
    verify(out_.program);
    Program recorded;  // for trying other options
    if (options_.budget && options_.must_fit) recorded = out_.program;
    prepare();
    out_.baselines = baselines_of(out_.program, workspace_);
    passes();
    share();
    plan();
    price();
    out_.seconds = now() - start;
    check_budget(out_, options_, [&](const CompileOptions& other) {
      return Compiler(recorded, cache_, layout_, other).least();
    });
    return std::move(out_);
  }

  int64_t least(Compiled* passed = nullptr) {
    quick_ = true;
    prepare();
    passes();
    out_.storages = assign_storages(out_.program, workspace_, storage_options());
    int64_t foreign = layout_.bytes();  // state of the set that this program does not carry
    for (const StateSlot& slot : out_.program.state) {
      const Value& value = out_.program.value(slot.start);
      if (value.space == Space::device) foreign -= align_up(value.spec.bytes());
    }
    const Peak peak = peak_of(out_.storages, lifetimes_of(out_.program, out_.storages));
    if (passed) *passed = std::move(out_);
    return foreign + peak.bytes;
  }

 private:
  void passes() {
    if (options_.schedule != Schedule::program) delay();
    if (options_.recompute == Recompute::none) return finish();
    const Program kept = out_.program;
    pass(
        to_string(options_.recompute), [&](std::string* note) { return recompute(note); }, kTrades);
    const size_t nodes = out_.program.nodes.size();
    const size_t through = out_.passes.size();
    if (options_.fuse_recompute) {
      pass(
          "fuse_recompute", [&](std::string* note) { return fused(note); }, kTrades);
    }
    const bool same = nodes == kept.nodes.size() && out_.program.nodes.size() == nodes;
    finish();
    if (same) return;
    const int64_t with = peak(storage_options());
    const int64_t without = finished_peak(kept, options_.fuse_epilogues);
    if (with <= without) return;
    // The passes that follow made less of it than the choice was judged by.
    out_.program = kept;
    prepare();
    step_ms_.reset();
    if (!quick_) {
      out_.passes.resize(through);
      PassReport& report = out_.passes.back();
      report.after_bytes = report.before_bytes, report.added_ms = 0;
      report.note = "undone: after the passes that follow the step would need " +
                    format_bytes(with) + " instead of " + format_bytes(without);
    }
    finish();
  }

  // What runs whether there is recomputation or not.
  void finish() {
    if (options_.fuse_epilogues) fuse_products();
    if (options_.schedule != Schedule::program) {
      pass("schedule", [&](std::string* note) {
        return schedule(out_.program, options_.schedule, note, workspace_, storage_options());
      });
    }
    if (options_.fuse_updates) {
      pass("fuse_updates",
           [&](std::string* note) { return fuse_updates(out_.program, note, workspace_); });
    }
    if (options_.layouts) pass("layouts", [&](std::string* note) { return layouts(note); });
  }
  int64_t finished_peak(const Program& program, bool fuse_epilogues) {
    CompileOptions options = options_;
    options.fuse_epilogues = fuse_epilogues;
    Compiler other(program, cache_, layout_, options);
    other.quick_ = true;
    other.prepare();
    other.finish();
    return other.peak(storage_options());
  }

  void prepare() {
    out_.kernels = prepare_all(out_.program, cache_);
    workspace_ = workspace_bytes(out_.kernels);
  }
  int64_t peak(const StorageOptions& options) const {
    return peak_bytes(out_.program, workspace_, options);
  }
  StorageOptions storage_options() const {
    return {.inplace = options_.inplace, .windows = options_.windows};
  }

  void pass(const std::string& name, const std::function<Program(std::string*)>& transform,
            bool trades = false) {
    if (quick_) {
      std::string ignored;
      out_.program = transform(&ignored);
      return prepare();
    }
    PassReport report{.name = name, .before_bytes = peak(storage_options()), .trades = trades};
    const double ms = step_ms_ ? *step_ms_ : predicted_ms();
    const double start = now();
    out_.program = transform(&report.note);
    report.seconds = now() - start;
    verify(out_.program);
    prepare();
    report.after_bytes = peak(storage_options());
    step_ms_ = predicted_ms();
    const double added = *step_ms_ - ms;
    if (std::abs(added) > 1e-9 * ms) report.added_ms = added;  // not for another order of summing
    out_.passes.push_back(std::move(report));
  }

  // Of the program as it stands; 0 without a profile.
  double predicted_ms() const {
    return options_.profile ? predict(out_.program, *options_.profile).step_ms : 0;
  }

  void price() {
    if (!options_.profile) return;
    const double ms = predict(out_.program, *options_.profile, &out_.storages).step_ms;
    double traded = 0;
    for (const PassReport& report : out_.passes) traded += report.trades ? report.added_ms : 0;
    out_.time = StepTime{.profile = options_.profile->name,
                         .measured = options_.profile->measured,
                         .step_ms = ms,
                         .overhead = traded / (ms - traded)};
  }

  // A line of effect only where there is something to delay.
  void delay() {
    std::string said;
    std::optional<Program> delayed = delay_forward(out_.program, &said, workspace_);
    if (!delayed) return;
    pass("delay", [&](std::string* note) {
      *note = said;
      return std::move(*delayed);
    });
  }

  // Judged by what is left of it after scheduling, which lowers the two by different amounts. Of a
  // large program by early updates alone: they are what counts there, at a hundredth of the time.
  Program recompute(std::string* note) {
    return pal::recompute(
        out_.program, options_.recompute, [&](const Program& p) { return scheduled_peak(p); }, note,
        options_.recompute_options, {.budget = options_.budget, .fuse = options_.fuse_recompute});
  }
  Program fused(std::string* note) {
    Program out = fuse_recompute(out_.program, note);
    if (out.nodes.size() == out_.program.nodes.size()) return out;
    if (scheduled_peak(out) <= scheduled_peak(out_.program)) return out;
    *note = "fused gradients would raise the peak: kept apart";
    return out_.program;
  }
  // A line of effect only where there is something to fuse.
  void fuse_products() {
    if (fuse_epilogues(out_.program).nodes.size() == out_.program.nodes.size()) return;
    pass("fuse_epilogues", [&](std::string* note) { return with_epilogues(note); });
  }
  // All forms, or else one after the other, so far as they do not raise the peak: they may by a
  // kernel's scratch memory, or because the passes that follow make less of what is left.
  Program with_epilogues(std::string* note) {
    const Program& apart = out_.program;
    const int64_t peak = finished_peak(apart, false);
    Program out = fuse_epilogues(apart, note);
    if (finished_peak(out, false) <= peak) return out;
    *note = "some would raise the peak: kept apart";
    out = apart;
    for (const Rewrite* rewrite : all_rewrites()) {
      if (rewrite->when != Rewrite::When::always) continue;
      Program fused = fuse_epilogues(out, nullptr, {&rewrite, 1});
      if (finished_peak(fused, false) <= peak) out = std::move(fused);
    }
    return out;
  }
  int64_t scheduled_peak(const Program& program) {
    const std::vector<int64_t> workspace = workspace_bytes(prepare_all(program, cache_));
    if (options_.schedule == Schedule::program) {
      return peak_bytes(program, workspace, storage_options());
    }
    if (program.node_count() > kLarge) {
      int64_t bytes = 0;
      schedule_early_updates(program, nullptr, workspace, storage_options(), &bytes);
      return bytes;
    }
    const Program scheduled =
        schedule(program, options_.schedule, nullptr, workspace, storage_options());
    return peak_bytes(scheduled, workspace_bytes(prepare_all(scheduled, cache_)),
                      storage_options());
  }

  Program layouts(std::string* note) {
    LayoutsEffect effect;
    Program out = choose_layouts(out_.program, cache_, &effect);
    *note = std::to_string(effect.reorders) + " reorders of " + format_bytes(effect.bytes) +
            " for " + std::to_string(effect.readers) + " readers";
    return out;
  }

  void share() {
    PassReport report{.name = "inplace",
                      .before_bytes = peak({.inplace = false, .windows = options_.windows})};
    const double start = now();
    StorageEffect effect;
    out_.storages = assign_storages(out_.program, workspace_, storage_options(), &effect);
    report.seconds = now() - start;
    report.after_bytes = peak_of(out_.storages, lifetimes_of(out_.program, out_.storages)).bytes;
    report.note = std::to_string(effect.inplace) + " values in place, " +
                  std::to_string(effect.windows) + " windows";
    out_.passes.push_back(std::move(report));
  }

  void plan() {
    const double start = now();
    out_.plan = make_plan(out_.program, out_.storages, layout_);
    PassReport report{.name = "place",
                      .before_bytes = out_.plan.device().lower_bound,
                      .after_bytes = out_.plan.device().bytes,
                      .seconds = now() - start};
    check_plan(out_.program, out_.storages, out_.plan);
    char note[96];
    std::snprintf(note, sizeof note, "%.1f%% fragmentation, order by %s",
                  100 * out_.plan.device().fragmentation(), out_.plan.order);
    report.note = note;
    out_.passes.push_back(std::move(report));
  }

  KernelCache& cache_;
  const StateLayout& layout_;
  const CompileOptions options_;
  std::vector<int64_t> workspace_;
  bool quick_ = false;             // bytes are all that is asked for
  std::optional<double> step_ms_;  // predicted, after the last pass
  Compiled out_;
};

}  // namespace

std::string to_string(const PassReport& report) {
  char time[64];
  std::snprintf(time, sizeof time, ", %.0f ms to plan", report.seconds * 1e3);
  char added[64] = "";
  if (std::abs(report.added_ms) >= 0.005) {
    std::snprintf(added, sizeof added, ", %+.2f ms predicted", report.added_ms);
  }
  return report.name + ": " + format_bytes(report.before_bytes) + " -> " +
         format_bytes(report.after_bytes) + added + time +
         (report.note.empty() ? "" : " (" + report.note + ")");
}

int64_t least_bytes(Program program, KernelCache& cache, const StateLayout& layout,
                    const CompileOptions& options, Compiled* passed) {
  return Compiler(std::move(program), cache, layout, options).least(passed);
}

Compiled compile(Program program, KernelCache& cache, const StateLayout& layout,
                 const CompileOptions& options) {
  return Compiler(std::move(program), cache, layout, options).run();
}

std::vector<int64_t> workspace_bytes(const std::vector<std::shared_ptr<const Kernel>>& kernels) {
  std::vector<int64_t> bytes;
  bytes.reserve(kernels.size());
  for (auto& kernel : kernels) bytes.push_back(kernel->prepared.workspace);
  return bytes;
}

}  // namespace pal
