// Making the front, and printing it.
#include "train/commands/plan_front.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "train/commands/plan_devices.h"
#include "train/config/published_sizes.h"
#include "train/config/wording.h"
#include "train/loop/choose_bucket.h"
#include "train/loop/max_fit.h"
#include "train/loop/recordings.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/report/device_facts.h"
#include "train/report/plan_page.h"
#include "train/report/plan_report.h"
#include "train/run_files/log.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

void check_alone(const PlanArgs& args) {
  const auto refuse = [](const char* what) {
    throw UsageError(std::string("--front: does not combine with ") + what +
                     "; leave one of them out");
  };
  if (args.max_batch) refuse("--max-batch");
  if (args.max_length) refuse("--max-length");
  if (!args.max_depth.empty()) refuse("--max-depth");
  if (!args.lifetimes.empty()) refuse("--lifetimes");
  if (!args.density.empty()) refuse("--density");
  if (*args.config.train.overlap_micro_batches) refuse("train.overlap_micro_batches");
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
                              {"recording", p.recording},
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
                    format_bytes(p.offloaded).c_str(),
                    (p.from + (p.recording.empty() ? "" : "; " + p.recording)).c_str());
  }
  return text + printed("  floor %s: state, inputs and %s\n",
                        format_bytes(front.floor.bytes).c_str(), front.floor.node.c_str());
}

}  // namespace

int run_front(const PlanArgs& given) {
  check_alone(given);
  PlanArgs args = given;
  const std::string made_up = use_published_sizes(args.config);
  CompileOptions options = compile_options(args.config.memory);
  options.profile = profile_of(args);
  options.exchange_device = exchange_device_of(args);
  options.branch_device = branch_device_of(args);
  std::optional<int64_t> budget = options.budget;
  if (!budget && !args.profile.empty()) budget = options.profile->room();

  const auto task = make_task(args.config);
  KernelCache cache(choose_device(args.config.device));
  const auto bucket = args.bucket ? *args.bucket : largest_bucket(*task, args.config, cache);
  args.config = with_bucket(args.config, *task, bucket, cache, options);
  const AutoPlanner planner(options, {.lossy = allows(args.config.memory, "lossy")});
  const FrontOfAll all = front_of_all(*task, args.config, bucket, planner, cache);
  const Front& front = all.made.front;
  const FrontLimits limits{.device = budget.value_or(front.points.back().bytes),
                           .host = host_limit_of_any(args.config.memory)};
  const FrontPoint* chosen = front.pick(limits);
  std::optional<Compiled> plan;
  if (chosen && (args.json || !args.html.empty())) {
    const Program& program = all.of(*chosen).second;
    plan = compile(program, cache, StateLayout(program), options_of(*chosen, limits));
  }
  const auto [source, target] = bucket;
  const std::string title = "bucket " + std::to_string(source) + "," + std::to_string(target);
  PlanFacts facts{.capacity = budget, .front = &front, .chosen = chosen};
  if (plan && args.links) facts.devices = device_facts(*plan, *options.profile);
  if (plan) {
    const Config& recorded = all.of(*chosen).first.config;
    facts.batch_parts = batch_parts_of(*task->variant(recorded), recorded, bucket);
  }
  if (plan && !args.html.empty()) {
    save_plan_page(args.html, *plan,
                   {.name = args.name,
                    .what = title + (made_up.empty() ? "" : "; " + made_up),
                    .config = dump_config(args.config)},
                   facts);
  }

  if (args.json) {
    if (!made_up.empty()) log_info(made_up);
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (plan) json = nlohmann::ordered_json::parse(plan_json(*plan, bucket, facts));
    json.update(json_of(front, chosen));
    json["front_seconds"] = all.made.seconds;
    print(json.dump() + "\n");
  } else {
    print(args.name + ", " + title + "\n" + (made_up.empty() ? "" : "  " + made_up + "\n") +
          lines_of(front, chosen) +
          printed("  %d plans unbeaten, %s in %.2f s\n", int(front.points.size()),
                  all.made.cached ? "looked up" : "made", all.made.seconds) +
          (plan && !args.html.empty() ? "page " + args.html.string() + "\n" : ""));
  }
  if (!chosen) {
    const FrontPoint& least = front.points.front();
    const Config& own = all.of(least).first.config;
    const auto its_task = task->variant(own);
    throw BudgetError(below(front, limits) +
                      allow_advice(*its_task, own, bucket, least.options, cache, limits.device) +
                      batch_advice(*its_task, own, bucket, least.options));
  }
  return kExitDone;
}

}  // namespace pal
