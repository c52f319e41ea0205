// Making the front, and printing it.
#include "train/commands/plan_front.h"

#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "memory/front/pool.h"
#include "train/config/profile.h"
#include "train/config/published_sizes.h"
#include "train/config/wording.h"
#include "train/loop/max_fit.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/report/plan_report.h"
#include "train/run_files/log.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

using Lengths = std::pair<int64_t, int64_t>;

void check_alone(const PlanArgs& args) {
  const auto refuse = [](const char* what) {
    throw UsageError(std::string("--front: does not combine with ") + what +
                     "; leave one of them out");
  };
  if (args.max_batch) refuse("--max-batch");
  if (!args.max_depth.empty()) refuse("--max-depth");
  if (!args.html.empty()) refuse("--html");
  if (!args.lifetimes.empty()) refuse("--lifetimes");
  if (!args.density.empty()) refuse("--density");
  if (*args.config.train.overlap_micro_batches) refuse("train.overlap_micro_batches");
}

// A step, and its bucket.
struct RecordedStep {
  Program program;
  Lengths bucket;
};

// Of the buckets that may be the largest, the one that needs most as it was recorded.
RecordedStep largest_step(const PlanArgs& args, const Task& task, KernelCache& cache) {
  const auto record = [&](Lengths bucket) {
    return RecordedStep{record_plan_step(task, args.config, bucket), bucket};
  };
  if (args.bucket) return record(*args.bucket);
  std::optional<RecordedStep> largest;
  int64_t most = 0;
  for (const int candidate : task.largest_candidates()) {
    RecordedStep step = record(task.bucket_lengths(candidate));
    const int64_t bytes = least_bytes(step.program, cache, StateLayout(step.program));
    if (largest && bytes <= most) continue;
    most = bytes, largest = std::move(step);
  }
  return std::move(*largest);
}

nlohmann::ordered_json json_of(const Front& front, const FrontPoint* chosen) {
  nlohmann::ordered_json json;
  json["points"] = nlohmann::ordered_json::array();
  for (const FrontPoint& p : front.points) {
    json["points"].push_back({{"bytes", p.bytes},
                              {"step_ms", p.step_ms},
                              {"overhead", front.overhead(p)},
                              {"bound_ms", p.bound_ms},
                              {"gap", Front::gap(p)},
                              {"kept", p.kept},
                              {"recomputed", p.recomputed},
                              {"encoded", p.encoded},
                              {"offloaded", p.offloaded},
                              {"host", p.host},
                              {"from", p.from}});
  }
  json["chosen"] = nullptr;
  if (chosen) json["chosen"] = chosen - front.points.data();
  json["floor"] = {{"bytes", front.floor.bytes}, {"node", front.floor.node}};
  return json;
}

std::string lines_of(const Front& front, const FrontPoint* chosen) {
  std::string text =
      printed("    %10s %10s %9s %7s %10s %10s %10s %10s  %s\n", "bytes", "step ms", "overhead",
              "gap", "kept", "recomputed", "encoded", "offloaded", "from");
  for (const FrontPoint& p : front.points) {
    text += printed("  %s %10s %10.2f %+8.1f%% %6.1f%% %10s %10s %10s %10s  %s\n",
                    &p == chosen ? "*" : " ", format_bytes(p.bytes).c_str(), p.step_ms,
                    100 * front.overhead(p), 100 * Front::gap(p), format_bytes(p.kept).c_str(),
                    format_bytes(p.recomputed).c_str(), format_bytes(p.encoded).c_str(),
                    format_bytes(p.offloaded).c_str(), p.from.c_str());
  }
  return text + printed("  floor %s: state, inputs and %s\n",
                        format_bytes(front.floor.bytes).c_str(), front.floor.node.c_str());
}

std::string below(const Front& front, int64_t budget) {
  const FrontPoint& least = front.points.front();
  std::string text = "no plan keeps to the budget of " + format_bytes(budget) +
                     ": the least found is " + format_bytes(least.bytes) + " (" + least.from + ")";
  if (budget < front.floor.bytes) {
    text += "; state, inputs and what " + front.floor.node + " touches are " +
            format_bytes(front.floor.bytes);
  }
  return text;
}

}  // namespace

int run_front(const PlanArgs& given) {
  check_alone(given);
  PlanArgs args = given;
  const std::string made_up = use_published_sizes(args.config);
  CompileOptions options = compile_options(args.config.memory);
  options.profile = args.profile.empty() ? default_profile() : load_profile(args.profile);
  std::optional<int64_t> budget = options.budget;
  if (!budget && !args.profile.empty()) budget = options.profile->capacity;

  const auto task = make_task(args.config);
  KernelCache cache(choose_device(args.config.device));
  const RecordedStep step = largest_step(args, *task, cache);
  const StateLayout layout(step.program);
  const Clock::time_point start = Clock::now();
  const Front front = make_front(step.program, cache, layout, options);
  const double seconds = seconds_since(start);
  const FrontPoint* chosen = budget ? front.pick(*budget) : &front.points.back();

  if (args.json) {
    if (!made_up.empty()) log_info(made_up);
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (chosen) {
      const Compiled plan = compile(step.program, cache, layout, chosen->options);
      json = nlohmann::ordered_json::parse(
          plan_json(plan, step.bucket, PlanFacts{.capacity = budget}));
    }
    json.update(json_of(front, chosen));
    json["front_seconds"] = seconds;
    print(json.dump() + "\n");
  } else {
    const auto [source, target] = step.bucket;
    print(args.name + ", bucket " + std::to_string(source) + "," + std::to_string(target) + "\n" +
          (made_up.empty() ? "" : "  " + made_up + "\n") + lines_of(front, chosen) +
          printed("  %d plans unbeaten, %.1f s\n", int(front.points.size()), seconds));
  }
  if (!chosen) {
    throw BudgetError(below(front, *budget) + batch_advice(*task, args.config, step.bucket));
  }
  return kExitDone;
}

}  // namespace pal
