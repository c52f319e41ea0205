// The order of the passes, and the report of each.
#include "memory/compile.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "core/error.h"
#include "core/verify.h"
#include "memory/fuse_updates.h"
#include "memory/layouts.h"
#include "memory/lifetimes.h"
#include "memory/report.h"
#include "memory/schedule.h"

namespace pal {
namespace {

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

void check_budget(const Compiled& c, const CompileOptions& options) {
  const Region& device = c.plan.device();
  if (!options.budget || device.bytes <= *options.budget) return;
  std::string what = "the step needs " + format_bytes(device.bytes) + ", " +
                     format_bytes(device.bytes - *options.budget) + " over the budget of " +
                     format_bytes(*options.budget);
  if (device.transients_begin() > *options.budget) {
    what += "; state and inputs alone are " + format_bytes(device.transients_begin()) +
            ": only a smaller model, another optimizer, a smaller batch or a larger memory.budget "
            "would help";
    throw BudgetError(what);
  }
  const Peak peak = peak_of(c.storages, lifetimes_of(c.program, c.storages));
  what += "; " + largest_at_peak(c.program, c.storages, peak);
  std::string help;
  if (!options.inplace) help += "memory.inplace: true, ";
  if (!options.lifetime_schedule) help += "memory.schedule: lifetime, ";
  if (options.recompute != Recompute::echo) help += "memory.recompute: echo, ";
  throw BudgetError(what + "; what would help: " + help +
                    "memory.encode, memory.swap, a smaller batch");
}

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
    prepare();
    out_.baselines = {peak({}), peak({.inplace = false})};
    if (options_.recompute != Recompute::none) {
      pass(to_string(options_.recompute), [&](std::string* note) { return recompute(note); });
    }
    if (options_.lifetime_schedule) {
      pass("schedule", [&](std::string* note) {
        return schedule_early_updates(out_.program, note, workspace_);
      });
    }
    if (options_.fuse_updates) {
      pass("fuse_updates",
           [&](std::string* note) { return fuse_updates(out_.program, note, workspace_); });
    }
    if (options_.layouts) pass("layouts", [&](std::string* note) { return layouts(note); });
    share();
    plan();
    out_.seconds = now() - start;
    check_budget(out_, options_);
    return std::move(out_);
  }

 private:
  void prepare() {
    out_.kernels = prepare_all(out_.program, cache_);
    workspace_ = workspace_bytes(out_.kernels);
  }
  int64_t peak(const StorageOptions& options) const {
    const Storages storages = assign_storages(out_.program, workspace_, options);
    return peak_of(storages, lifetimes_of(out_.program, storages)).bytes;
  }
  StorageOptions storage_options() const {
    return {.inplace = options_.inplace, .windows = options_.windows};
  }

  void pass(const std::string& name, const std::function<Program(std::string*)>& transform) {
    PassReport report{.name = name, .before_bytes = peak(storage_options())};
    const double start = now();
    out_.program = transform(&report.note);
    report.seconds = now() - start;
    verify(out_.program);
    prepare();
    report.after_bytes = peak(storage_options());
    out_.passes.push_back(std::move(report));
  }

  // Judged by what is left of it after scheduling, which lowers the two by different amounts.
  Program recompute(std::string* note) {
    auto footprint = [&](const Program& program) {
      const Program* p = &program;
      Program early;
      if (options_.lifetime_schedule) {
        early = schedule_early_updates(program, nullptr,
                                       workspace_bytes(prepare_all(program, cache_)));
        p = &early;
      }
      const Storages storages =
          assign_storages(*p, workspace_bytes(prepare_all(*p, cache_)), storage_options());
      return peak_of(storages, lifetimes_of(*p, storages)).bytes;
    };
    return pal::recompute(out_.program, options_.recompute, footprint, note);
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
    PassReport report{.name = "place", .before_bytes = out_.plan.device().lower_bound,
                      .after_bytes = out_.plan.device().bytes, .seconds = now() - start};
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
  Compiled out_;
};

}  // namespace

std::string to_string(const PassReport& report) {
  char time[64];
  std::snprintf(time, sizeof time, ", %.0f ms to plan", report.seconds * 1e3);
  char added[64] = "";
  if (report.added_ms > 0) std::snprintf(added, sizeof added, ", +%.2f ms predicted", report.added_ms);
  return report.name + ": " + format_bytes(report.before_bytes) + " -> " +
         format_bytes(report.after_bytes) + added + time +
         (report.note.empty() ? "" : " (" + report.note + ")");
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
