// Searching with a front for each value.
#include "train/commands/plan_auto.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "core/error.h"
#include "memory/compile.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"

namespace pal {

ChosenFit search_chosen(const Task& task, const PlanArgs& args, const std::string& key,
                        std::pair<int64_t, int64_t> bucket, const AutoPlanner& planner,
                        KernelCache& kernels, int64_t capacity) {
  FrontLimits limits{.device = capacity, .host = host_limit_of_any(args.config.memory)};
  std::map<int64_t, AnswerCost> costs;
  ChosenFit out;
  out.fit = largest_fitting(
      task, args.config, bucket, key, limits.device,
      [&](int64_t value, const Task& its_task, const Config& config,
          std::pair<int64_t, int64_t> lengths) {
        // What a plan costs is told of the step as it is configured, whatever else it may be
        // recorded as.
        const Program plain = record_plan_step(its_task, config, lengths);
        Compiled passed;
        least_bytes(plain, kernels, StateLayout(plain), planner.as_recorded(), &passed);
        const double plain_ms =
            predict(passed.program, *planner.options().profile, &passed.storages).step_ms;
        if (args.max_overhead) limits.step_ms = (1 + *args.max_overhead) * plain_ms;
        const ChosenRecording best =
            choose_recording(its_task, config, lengths, planner, kernels, limits);
        const int64_t bytes = best.plan.step.plan.device().bytes;
        const double ms = best.plan.step.time->step_ms;
        if (!best.plan.over.empty() || ms > limits.step_ms) {
          return std::max(bytes, limits.device + 1);
        }
        AnswerCost cost{.step_ms = ms, .recording = best.recording.name};
        if (best.plan.made) {
          cost.overhead = ms / plain_ms - 1, cost.from = best.plan.point().from;
        }
        costs[value] = cost;
        return bytes;
      });
  if (out.fit.found.bytes > 0) {
    out.cost = costs.at(out.fit.found.value);
    out.words = out.cost->from.empty() ? "; it fits as it was recorded"
                                       : printed("; it costs %+.1f %% (%s)",
                                                 100 * out.cost->overhead, out.cost->from.c_str());
    if (!out.cost->recording.empty()) out.words += ", " + out.cost->recording;
  }
  if (args.max_overhead) out.words += printed("; allowed %.3g %%", 100 * *args.max_overhead);
  return out;
}

double parse_max_overhead(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  const bool ok = read.ec == std::errc() && end - read.ptr == 1 && *read.ptr == '%';
  if (!ok || !(number >= 0 && number <= 1000)) {
    throw UsageError("--max-overhead: '" + one_line(text) +
                     "' is no part of a step's time; write it as 5%");
  }
  return number / 100;
}

}  // namespace pal
