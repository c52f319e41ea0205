// The driver of the passes.
#include "memory/pass.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/order.h"
#include "core/text.h"
#include "core/verify.h"
#include "memory/passes/assign_queues.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

constexpr NodeId kLarge = 4000;  // nodes

int64_t early_peak(const Program& program, const ByNode<int64_t>& workspace,
                   const CompileOptions& options) {
  int64_t bytes = 0;
  schedule_early_updates(program, nullptr, workspace, storage_options(options), &bytes);
  return bytes;
}

int64_t scheduled_peak(const Program& program, const ByNode<int64_t>& workspace,
                       const CompileOptions& options) {
  const StorageOptions storages = storage_options(options);
  int64_t bytes = 0;
  if (options.schedule != Schedule::program && program.node_count() > kLarge) {
    bytes = early_peak(program, workspace, options);
  } else {
    schedule(program, options.schedule, nullptr, workspace, storages, &bytes);
  }
  return bytes;
}

double step_ms_of(Passed& passed, const CompileOptions& options) {
  if (!passed.step_ms) {
    const auto step_ms = [&](const Program& p) { return predict(p, *options.profile).step_ms; };
    // Copies run beside the rest. The last pass has put them there.
    std::optional<Program> queued;
    if (queue_count(passed.program) == 1) queued = assign_queues(passed.program);
    passed.step_ms = !options.profile ? 0 : step_ms(queued ? *queued : passed.program);
  }
  return *passed.step_ms;
}

// What the rule forbids about the step after a pass: bytes before and after, by the rule's measure.
struct Raised {
  int64_t before = 0, after = 0;
  explicit operator bool() const { return after > before; }
};

// Options by which passes are judged. Which values are rounded may not depend on how many of their
// elements are zero, or on whether they are counted, so nor may what is recomputed then.
CompileOptions judging(CompileOptions options) {
  options.encode = options.encode.without_counts();
  options.swap.method = Swap::none;  // its answer fits any budget, whatever the passes before do
  return options;
}

bool judges_apart(const CompileOptions& options) {
  const Encodings& encode = options.encode;
  return options.swap.method != Swap::none ||
         (encode.is_lossy() && (encode.ssdc || encode.observe));
}

// What the rest of the list made of a program that a pass asked about.
struct Tried {
  Program of;
  Passed passed;
};

// The passes of a list over one program.
class Driver {
 public:
  Driver(KernelCache& cache, const CompileOptions& options, bool quick,
         PassMemory* memory = nullptr)
      : cache_(cache),
        options_(options),
        judging_(judging(options)),
        judges_apart_(judges_apart(options)),
        quick_(quick),
        memory_(memory) {}

  Passed run(std::span<const Pass> passes, Passed now) {
    for (size_t i = 0; i < passes.size(); ++i) {
      const Pass& pass = passes[i];
      if (!pass.wanted(options_)) continue;
      const std::span<const Pass> rest = passes.subspan(i + 1);
      const auto scheduled = [&](const Program& p) {
        return scheduled_peak(p, workspace_bytes(prepare_all(p, cache_)), options_);
      };
      std::optional<int64_t> without;  // the final peak without the pass
      // The first that trades time sees the same program in each plan of the step.
      PassMemory* const memory = pass.trades_time ? std::exchange(memory_, nullptr) : nullptr;
      if (memory && memory->without.contains(pass.name)) without = memory->without[pass.name];
      std::optional<Tried> least;
      const auto final = [&](const Program& p) {
        if (&p != &now.program) return tried_peak(rest, p, least);
        if (!without) {
          without = final_peak(rest, p);
          if (memory) memory->without[pass.name] = *without;
        }
        return *without;
      };
      const auto step = [&](const Program& p) { return final_step(rest, p); };
      PassReport report{.name = pass.name, .trades = pass.trades_time};
      const Clock::time_point start = Clock::now();
      std::optional<Program> made = pass.run(now.program,
                                             {options_, cache_, now.workspace, scheduled, final,
                                              step, memory, quick_ ? nullptr : &now.dense_maps},
                                             &report.note);
      report.seconds = seconds_since(start);
      if (!made) {
        if (!report.note.empty()) add(std::move(report), now, now, now);
        continue;
      }
      if (!quick_) verify(*made);
      if (least && same_step(least->of, *made)) {  // the rest of the list is known
        if (pass.keep == Keep::always) return std::move(least->passed);
        if (pass.keep == Keep::if_final_peak_not_higher) {
          if (peak_of(least->passed, options_) <= final(now.program)) {
            return std::move(least->passed);
          }
          continue;
        }
      }
      Passed then = prepared(std::move(*made), cache_);
      then.dense_maps = now.dense_maps;
      if (pass.keep == Keep::if_within_budget && packs_within_budget(options_)) {
        return within_budget(std::move(report), rest, std::move(now), std::move(then));
      }
      if (pass.keep != Keep::if_final_peak_not_higher) {
        if (const Raised raised = raised_by(pass.keep, now, then)) {
          undo(std::move(report), now, raised, "");
          continue;
        }
        then.reports = std::move(now.reports);
        add(std::move(report), now, then, then);
        now = std::move(then);
        continue;
      }
      then.reports = now.reports;
      PassReport kept = report;
      add(std::move(kept), now, then, then);
      const int64_t apart = judges_apart_ ? final_peak(rest, then.program) : 0;
      Passed with = run(rest, std::move(then));
      const Raised raised{final(now.program), judges_apart_ ? apart : peak_of(with, options_)};
      if (!raised) return with;
      undo(std::move(report), now, raised, "after the passes that follow ");
    }
    return now;
  }

 private:
  // What the rest of the list makes of the program with what a pass did, or without it where that
  // alone is within the budget, or needs less.
  Passed within_budget(PassReport report, std::span<const Pass> rest, Passed without, Passed with) {
    with.reports = without.reports;
    PassReport kept = report;
    add(std::move(kept), without, with, with);
    with = run(rest, std::move(with));
    const int64_t after = peak_of(with, options_);
    if (after <= *options_.budget) return with;
    Passed last = run(rest, without);
    const Raised raised{peak_of(last, options_), after};
    if (!raised) return with;
    if (quick_) return last;
    undo(std::move(report), without, raised, "after the passes that follow ");
    return run(rest, std::move(without));  // behind the line that says so
  }

  // Of the many plans of a planner each is judged with early updates alone: they are nearly all
  // that an order lowers, and a planner has the next plan where one comes out high.
  int64_t final_peak(std::span<const Pass> rest, const Program& program) const {
    if (is_planned(options_.recompute) && options_.schedule != Schedule::program) {
      return early_peak(program, workspace_bytes(prepare_all(program, cache_)), options_);
    }
    Passed last = Driver(cache_, judging_, true).run(rest, prepared(program, cache_));
    return peak_of(last, options_);
  }

  // Where the step is judged as it will be, the rest of the list need not run again for the lowest.
  int64_t tried_peak(std::span<const Pass> rest, const Program& program,
                     std::optional<Tried>& least) const {
    const bool again = !quick_ || judges_apart_ || is_planned(options_.recompute);
    if (again) return final_peak(rest, program);
    Passed last = Driver(cache_, judging_, true).run(rest, prepared(program, cache_));
    const int64_t peak = peak_of(last, options_);
    if (!least || peak <= peak_of(least->passed, options_)) least = {program, std::move(last)};
    return peak;
  }

  FinalStep final_step(std::span<const Pass> rest, const Program& program) const {
    Passed last = Driver(cache_, options_, true).run(rest, prepared(program, cache_));
    return {peak_of(last, options_), predict(last.program, priced_device(options_)).step_ms};
  }

  Raised raised_by(Keep keep, Passed& now, Passed& then) const {
    if (keep == Keep::if_peak_not_higher) {
      return {peak_of(now, options_), peak_of(then, options_)};
    }
    if (keep == Keep::if_scheduled_peak_not_higher) {
      return {scheduled_peak(now.program, now.workspace, options_),
              scheduled_peak(then.program, then.workspace, options_)};
    }
    return {};
  }

  // Appends a line of the report: what the pass did from `before` to `after`.
  void add(PassReport report, Passed& before, Passed& after, Passed& to) const {
    if (quick_) return;
    report.before_bytes = peak_of(before, options_), report.after_bytes = peak_of(after, options_);
    const double ms = step_ms_of(before, options_), added = step_ms_of(after, options_) - ms;
    if (std::abs(added) > 1e-9 * ms) report.added_ms = added;  // not for another order of summing
    to.reports.push_back(std::move(report));
  }
  void undo(PassReport report, Passed& now, const Raised& raised, const std::string& when) const {
    report.note = "undone: " + when + "the step would need " + format_bytes(raised.after) +
                  " instead of " + format_bytes(raised.before);
    add(std::move(report), now, now, now);
  }

  KernelCache& cache_;
  const CompileOptions& options_;
  const CompileOptions judging_;
  const bool judges_apart_;  // judging_ are not options_
  const bool quick_;
  PassMemory* memory_;
};

}  // namespace

bool is_card(const Device& device, const CompileOptions& options) {
  return device.accelerator || (options.profile && options.profile->elsewhere);
}

StorageOptions storage_options(const CompileOptions& options) {
  return {.inplace = options.inplace, .windows = options.windows, .maps_alone = options.maps_alone};
}

Fusions fusions_of(const CompileOptions& options) {
  return {.recomputed = options.fuse_recompute, .epilogues = options.fuse_epilogues};
}

bool packs_within_budget(const CompileOptions& options) {
  return options.budget && options.dynamic.manager == Manager::fixed &&
         options.swap.method == Swap::none && !is_planned(options.recompute);
}

DeviceProfile priced_device(const CompileOptions& options) {
  return options.profile.value_or(kEchoDevice);
}

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

Passed prepared(Program program, KernelCache& cache) {
  Passed out;
  out.program = std::move(program);
  out.kernels = prepare_all(out.program, cache);
  out.workspace = workspace_bytes(out.kernels);
  return out;
}

int64_t peak_of(Passed& passed, const CompileOptions& options) {
  if (!passed.peak) {
    passed.peak = peak_bytes(passed.program, passed.workspace, storage_options(options));
  }
  return *passed.peak;
}

Passed run_passes(std::span<const Pass> passes, Passed now, KernelCache& cache,
                  const CompileOptions& options, bool quick, PassMemory* memory) {
  if (queue_count(now.program) > 1) {
    throw ProgramError(
        "[passes] the program has several queues: passes see one logical order, and assign_queues "
        "makes several of it");
  }
  return Driver(cache, options, quick, memory).run(passes, std::move(now));
}

}  // namespace pal
