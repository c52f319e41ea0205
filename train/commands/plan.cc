// pal plan: where the memory of a training step goes, without running it.
#include <algorithm>
#include <charconv>
#include <cstdio>

#include "core/error.h"
#include "core/text.h"
#include "data/atomic_file.h"
#include "memory/overlap/compile_pair.h"
#include "memory/plan/report.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/plan_auto.h"
#include "train/commands/plan_devices.h"
#include "train/commands/plan_front.h"
#include "train/commands/plan_probe.h"
#include "train/config/published_sizes.h"
#include "train/config/wording.h"
#include "train/loop/choose_bucket.h"
#include "train/loop/max_fit.h"
#include "train/loop/run_options.h"
#include "train/loop/sparse_steps.h"
#include "train/loop/step_program.h"
#include "train/report/device_facts.h"
#include "train/report/plan_densities.h"
#include "train/report/plan_page.h"
#include "train/report/plan_report.h"
#include "train/run_files/log.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

using Lengths = std::pair<int64_t, int64_t>;

struct Planned {
  Compiled step;
  Lengths bucket;
  std::string over;  // what a BudgetError said; empty: it keeps to the budget, or there is none
  ChosenRecording of = {};  // where the plan was chosen; its step is the one above
};

// What all buckets are planned with.
struct Planner {
  const Task& task;
  const PlanArgs& args;
  const PlanDensities& densities;
  KernelCache& cache;
  const std::optional<AutoPlanner>& automatic;  // none: the plan is what the options say

  Planned bucket(Lengths bucket, CompileOptions options) const;
  Planned largest(const CompileOptions& options) const;
  Planned chosen(Lengths bucket, int64_t budget) const;
  int64_t without_sparse(Planned& step, const CompileOptions& options, PlanFacts& facts) const;
};

// The step of one bucket. What is over the budget is planned all the same.
Planned Planner::bucket(Lengths bucket, CompileOptions options) const {
  Program program = record_plan_step(task, args.config, bucket);
  if (options.encode.ssdc) {
    const MicroBatch last = update_of(args.config).last();
    densities.put_into(options.encode, step_name(bucket, last), program);
  }
  const StateLayout layout(program);
  if (!options.must_fit) return {compile(std::move(program), cache, layout, options), bucket, ""};
  std::string over;
  try {
    return {compile(program, cache, layout, options), bucket, ""};
  } catch (const BudgetError& error) {
    over = error.what();
  }
  options.must_fit = false;
  return {compile(std::move(program), cache, layout, options), bucket, over};
}

// The plan that memory.auto chooses for a bucket.
Planned Planner::chosen(Lengths bucket, int64_t budget) const {
  const FrontLimits limits{.device = budget, .host = host_limit_of_any(args.config.memory)};
  ChosenRecording best = choose_recording(task, args.config, bucket, *automatic, cache, limits);
  Compiled step = std::move(best.plan.step);
  const std::string over = best.plan.over;
  return {std::move(step), bucket, over, std::move(best)};
}

// The largest of the buckets that may be it.
Planned Planner::largest(const CompileOptions& options) const {
  if (automatic) {
    return chosen(args.bucket ? *args.bucket : largest_bucket(task, args.config, cache),
                  *options.budget);
  }
  if (args.bucket) return bucket(*args.bucket, options);
  std::optional<Planned> largest;
  for (int candidate : task.largest_candidates()) {
    Planned planned = bucket(task.bucket_lengths(candidate), options);
    if (largest && planned.step.plan.device().bytes <= largest->step.plan.device().bytes) continue;
    largest = std::move(planned);
  }
  return std::move(*largest);
}

// The lower bound of that step's plan without sparse maps, as a run makes it. The step is over the
// budget where that plan is, and becomes that plan where a run would keep to it.
int64_t Planner::without_sparse(Planned& step, const CompileOptions& options,
                                PlanFacts& facts) const {
  const std::vector<CompileOptions> tries = dense_options(options);
  size_t i = 0;
  Planned dense = bucket(step.bucket, tries[0]);
  while (!dense.over.empty() && i + 1 < tries.size()) dense = bucket(step.bucket, tries[++i]);
  const int64_t sparse_bytes = step.step.plan.device().bytes;
  const int64_t least = dense.step.plan.device().lower_bound;
  facts.dense_bytes = dense.step.plan.device().bytes;
  facts.dense_recomputes = i > 0;
  if (!dense.over.empty()) {
    step.over = dense_over(dense.over, i).what();
  } else if (!step.over.empty() ||
             (!facts.dense_recomputes && sparse_bytes >= most_sparse_bytes(*facts.dense_bytes))) {
    facts.sparse_bytes = sparse_bytes;
    step = std::move(dense);
  }
  return least;
}

// What the last two micro-batches of an update that run side by side need.
PairFacts overlapped(const Planner& planner, Lengths bucket, const CompileOptions& options) {
  const Update update(planner.args.config.train, planner.args.config.ranks);
  const int64_t n = update.per_rank(), i = n - 2 - n % 2;
  const MicroBatch of_first = update.kind(i), of_second = update.kind(i + 1);
  const auto record = [&](MicroBatch kind) {
    return record_bucket_step(planner.task, planner.args.config, bucket, kind);
  };
  const Program first = record(of_first), second = record(of_second);
  StateLayout layout(first);
  layout.add(second);
  const PairQueues queues = planner.cache.device().accelerator ? PairQueues::two : PairQueues::one;
  PairFacts facts{.micro_batches = to_string(of_first) + "+" + to_string(of_second)};
  try {
    const CompiledPair pair = compile_pair(first, second, planner.cache, layout, options, queues);
    facts.line = "micro-batches " + to_string(pair.step.passes.back());
    facts.bytes = pair.step.plan.device().bytes, facts.larger_bytes = pair.larger_bytes;
    facts.begins_after = pair.at.shift, facts.ms = pair.at.ms;
    facts.one_by_one_ms = pair.one_by_one_ms, facts.least_ms = pair.least_ms;
  } catch (const BudgetError& error) {
    facts.why_not = error.what();
    facts.line = "micro-batches one behind the other: " + facts.why_not;
  }
  return facts;
}

std::string batch_of(const TrainConfig& config) {
  if (config.batch_words->has_value()) return std::to_string(**config.batch_words) + " words";
  return std::to_string(*config.batch_size);
}

// "train.batch_size 412 is the largest that fits 11.8 GB: 11.7 GB; 413 needs at least 11.9 GB"
std::string line_of(const MaxFit& fit, int64_t capacity) {
  const Fitting& found = fit.found;
  std::string line;
  if (found.bytes == 0) {
    line = "no value of " + fit.key + " fits " + format_bytes(capacity);
  } else {
    line = fit.key + " " + std::to_string(found.value) + " is the largest that fits " +
           format_bytes(capacity) + ": " + format_bytes(found.bytes);
  }
  if (found.next_bytes > 0) {
    line += "; " + std::to_string(found.next) + " needs at least " + format_bytes(found.next_bytes);
  }
  return line + printed(" (%d steps planned, %.1f s)", found.probes, fit.seconds);
}

// What a plan may need of a card, where that is not all; else nothing.
std::string room_line(const DeviceProfile& device) {
  if (device.room() == device.capacity) return "";
  return "room   " + format_bytes(device.room()) + " of " + format_bytes(device.capacity) +
         ": the rest is for what no plan holds (context, libraries, recorded steps)";
}

// The device's transients: id (the storage), lower, upper (moments), size (bytes).
void save_lifetimes(const std::filesystem::path& file, const Compiled& step) {
  const Transients transients = transients_of(step.program, step.storages, Space::device);
  std::string text = "id,lower,upper,size\n";
  for (size_t i = 0; i < transients.buffers.size(); ++i) {
    const Buffer& b = transients.buffers[i];
    text += std::to_string(transients.storage[i]) + "," + std::to_string(b.lower) + "," +
            std::to_string(b.upper) + "," + std::to_string(b.size) + "\n";
  }
  AtomicFile out(file.string());
  out.write(text.data(), text.size());
  out.commit();
}

int64_t answer_of(const MaxFit& fit) { return fit.found.bytes > 0 ? fit.found.value : 0; }

}  // namespace

int run_plan(const PlanArgs& given) {
  if (!given.probe.empty()) return run_probe(given);
  if (given.front) return run_front(given);
  PlanArgs args = given;
  const std::string made_up = use_published_sizes(args.config);
  const bool searches = args.max_batch || args.max_length || !args.max_depth.empty();
  CompileOptions options = compile_options(args.config.memory);
  options.profile = profile_of(args);
  options.exchange_device = exchange_device_of(args);
  options.branch_device = branch_device_of(args);
  PlanFacts facts{.capacity = options.budget};
  if (!facts.capacity && !args.profile.empty()) facts.capacity = options.profile->room();
  std::optional<AutoPlanner> automatic;
  if (chooses_plan(args.config.memory)) {
    automatic.emplace(options, FrontChoices{.lossy = allows(args.config.memory, "lossy")});
  }
  if (args.max_overhead && !(automatic && searches)) {
    throw UsageError(
        "--max-overhead: is of --max-batch, --max-depth and --max-length with a budget that plans "
        "are chosen from (memory.auto); give --budget and one of them, or leave it out");
  }
  options.must_fit = options.budget && !searches;  // else whether it fits is not the question
  const bool managed = options.dynamic.manager != Manager::fixed;
  if (searches || managed) options.budget = facts.capacity;
  if (searches && !facts.capacity) {
    throw UsageError(std::string(args.max_batch    ? "--max-batch"
                                 : args.max_length ? "--max-length"
                                                   : "--max-depth") +
                     ": how much memory there is, is not known; give --budget or --profile");
  }
  if (!args.config.train.batch_words->has_value()) {
    facts.samples = *args.config.train.batch_size * args.config.ranks;
  }

  const PlanDensities densities(args.density, options.encode.ssdc);
  const auto task = make_task(args.config);
  KernelCache cache(choose_device(args.config.device));
  if (args.config.ranks > 1) {
    const auto lengths = args.bucket ? *args.bucket : largest_bucket(*task, args.config, cache);
    args.config = with_bucket(args.config, *task, lengths, cache, options);
  }
  const Planner planner{*task, args, densities, cache, automatic};
  Planned planned = planner.largest(options);
  // A card's memory is no budget to what fits it anyway.
  if (facts.capacity && !options.budget && planned.step.plan.device().bytes > *facts.capacity) {
    options.budget = facts.capacity;
    planned = planner.largest(options);
  }
  // A run has to fit without sparse maps too, so that is what a search is for.
  int64_t least = planned.step.plan.device().lower_bound;
  if (options.encode.ssdc) {
    facts.densities_from = densities.run();
    least = planner.without_sparse(planned, options, facts);
  }
  std::vector<std::string> searched;
  if (!args.profile.empty() && !args.config.memory.budget->has_value()) {
    if (const std::string line = room_line(*options.profile); !line.empty()) {
      searched.push_back(line);
    }
  }
  if (automatic) {
    searched.push_back("auto   " + describe(planned.of.plan, {.device = *options.budget}) +
                       (planned.of.recording.name.empty() ? "" : "; " + planned.of.recording.name));
    if (planned.of.plan.made) {
      facts.front = &planned.of.plan.made->front, facts.chosen = &planned.of.plan.point();
    }
  }
  if (*args.config.train.overlap_micro_batches) {
    facts.pair = overlapped(planner, planned.bucket, options);
    searched.push_back(facts.pair->line);
  }
  auto search = [&](const std::string& key) {
    if (automatic) {
      const ChosenFit chosen =
          search_chosen(*task, args, key, planned.bucket, *automatic, cache, *facts.capacity);
      searched.push_back(line_of(chosen.fit, *facts.capacity) + chosen.words);
      facts.answer = chosen.cost;
      return answer_of(chosen.fit);
    }
    const MaxFit fit = largest_fitting(*task, args.config, planned.bucket, key, *facts.capacity,
                                       least, options.profile);
    searched.push_back(line_of(fit, *facts.capacity) +
                       (options.encode.ssdc ? ", all without sparse maps" : ""));
    return answer_of(fit);
  };
  if (args.max_batch) facts.max_batch = search(kBatchKey);
  if (args.max_length) facts.max_length = search(kLengthKey);
  if (!args.max_depth.empty()) facts.max_depth = search(args.max_depth);

  const Config& recorded = automatic ? planned.of.recording.config : args.config;
  facts.batch_parts = batch_parts_of(*task->variant(recorded), recorded, planned.bucket);
  if (args.links) facts.devices = device_facts(planned.step, *options.profile);
  const auto [source, target] = planned.bucket;
  const std::string bucket = std::to_string(source) + "," + std::to_string(target);
  if (!args.html.empty()) {
    save_plan_page(args.html, planned.step,
                   {.name = args.name,
                    .what = "bucket " + bucket + ", batch " + batch_of(args.config.train) +
                            (made_up.empty() ? "" : "; " + made_up),
                    .config = dump_config(args.config)},
                   facts);
  }
  if (!args.lifetimes.empty()) save_lifetimes(args.lifetimes, planned.step);
  if (args.json) {
    if (!made_up.empty()) log_info(made_up);
    std::puts(plan_json(planned.step, planned.bucket, facts).c_str());
    std::fflush(stdout);
  }
  if (!planned.over.empty()) {
    std::optional<CompileOptions> fewest;
    if (automatic) {
      fewest = planned.of.plan.point().options;
      // What is chosen is of the recording that needs least.
      const Config& own = planned.of.recording.config;
      const auto its_task = task->variant(own);
      throw BudgetError(
          planned.over +
          allow_advice(*its_task, own, planned.bucket, *fewest, cache, *options.budget) +
          batch_advice(*its_task, own, planned.bucket, fewest));
    }
    throw BudgetError(planned.over + batch_advice(*task, args.config, planned.bucket, fewest));
  }
  if (args.json) return kExitDone;
  std::printf("%s, bucket %s\n", args.name.c_str(), bucket.c_str());
  if (!made_up.empty()) std::printf("  %s\n", made_up.c_str());
  for (const std::string& line : plan_lines(planned.step, facts)) std::puts(line.c_str());
  for (const std::string& line : searched) std::puts(("  " + line).c_str());
  if (!args.html.empty()) std::printf("page %s\n", args.html.c_str());
  return kExitDone;
}

namespace {

struct PlanFlags {
  PlanArgs args;
  ConfigFlags config;
  DeviceFlags devices;
  std::string budget, host_budget, bucket, max_overhead;

  void declare(Flags& flags) {
    config.add(flags);
    flags.add("--budget", budget, "bytes the step may take, e.g. 11GiB", {.type = "SIZE"});
    flags.add("--host-budget", host_budget, "bytes of the host's memory that copies may take",
              {.type = "SIZE"});
    flags.add("--bucket", bucket, "source and target length (the largest bucket)", {.type = "S,T"});
    flags.add("--html", args.html, "also write a page of pictures and tables", {.type = "FILE"});
    flags.add("--lifetimes", args.lifetimes,
              "also write what the step places, as a file for pal place", {.type = "FILE"});
    flags.add("--profile", args.profile,
              "device that the time is predicted for, and whose memory it should fit: a name "
              "in configs/devices, cpu, or a file",
              {.type = "NAME"});
    devices.declare(flags);
    flags.add("--density", args.density,
              "of ssdc: the part of a map that is not zero, assumed where layers make zeros (0.5), "
              "or the folder of a run that measured it",
              {.type = "D"});
    flags.add("--probe-precision", args.probe,
              "instead of a plan: the error of each precision format in each layer of that run, "
              "and memory.dpr_layers for it",
              {.type = "RUN"});
    flags.add("--probe-error", args.probe_error,
              "relative change of the gradients that a format may cause (0.01)", {.type = "E"});
    flags.add("--front", args.front,
              "in place of the plan that is asked for: the fastest plans known by bytes, and the "
              "one that the budget picks");
    flags.add(
        "--max-batch", args.max_batch,
        "find the largest train.batch_size that fits the budget, else the room of the profile's "
        "device");
    flags.add("--max-depth", args.max_depth,
              "find the largest value of a model's option that fits: model.encoder_layers",
              {.type = "KEY"});
    flags.add("--max-length", args.max_length,
              "find the longest samples that fit: the source length, with the target's in the "
              "bucket's proportion");
    flags.add("--max-overhead", max_overhead,
              "of the three above with a budget that plans are chosen from: what the plan may add "
              "to the step's time, e.g. 5%",
              {.type = "P"});
    add_json(flags, args.json);
  }
  Request read() {
    if (!bucket.empty()) args.bucket = parse_bucket(bucket);
    if (!max_overhead.empty()) args.max_overhead = parse_max_overhead(max_overhead);
    std::vector<Override> overrides;
    if (!budget.empty()) overrides.push_back({"memory.budget", budget, "--budget"});
    if (!host_budget.empty()) {
      overrides.push_back({"memory.host_budget", host_budget, "--host-budget"});
    }
    const std::filesystem::path folder =
        args.probe.extension() == ".safetensors" ? args.probe.parent_path() : args.probe;
    args.config =
        config.read("plan", args.probe.empty() ? "" : folder / "config.yaml", overrides, args.name);
    devices.apply(args);
    return request<run_plan>(args);
  }
};

}  // namespace

Command plan_command() {
  return command<PlanFlags>("plan", "plan a training step's memory; trains nothing");
}

}  // namespace pal
