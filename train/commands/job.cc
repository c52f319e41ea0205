// The phases of a run.
#include "train/commands/job.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/prepare.h"
#include "data/atomic_file.h"
#include "memory/plan/report.h"
#include "train/images/image_task.h"
#include "train/loop/rank_talk.h"
#include "train/loop/ranks_of_run.h"
#include "train/loop/recordings.h"
#include "train/loop/run_options.h"
#include "train/report/plan_report.h"
#include "train/run_files/log.h"
#include "train/run_files/process_memory.h"
#include "train/tasks/make_task.h"

namespace pal {

namespace fs = std::filesystem;

namespace {

void write_text(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path.string());
  file.write(text.data(), text.size());
  file.commit();
}

// --resume may change nothing that alters results.
void check_resume(const TrainArgs& args, const Config& saved) {
  std::string changed;
  // Where validations steer the learning rate, their rhythm alters results.
  const bool steered = *args.config.train.schedule == "plateau";
  for (const Difference& d : diff(saved, args.config)) {
    if (!d.alters_results && !(steered && d.key == "train.valid_every")) continue;
    changed += (changed.empty() ? "" : ", ") + d.key + " " + d.a + " -> " + d.b;
  }
  if (!changed.empty()) {
    throw UsageError("--resume: this would change results: " + changed +
                     "; resume with the run's own options, or choose another --out");
  }
}

void print_samples(const Validation& result) {
  for (auto& [source, output] : result.samples) {
    log_info("  " + source);
    log_info("    -> " + output);
  }
}

}  // namespace

namespace {

// The name of a checkpoint that was kept, or nothing: the last one was there before it. (The best
// is saved before the first of all.)
std::string kept_checkpoint(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".safetensors")) return name;
  }
  return "";
}

}  // namespace

bool holds_run(const std::filesystem::path& folder) {
  for (const char* name : {"config.yaml", "metrics.jsonl", "last.safetensors"}) {
    if (std::filesystem::exists(folder / name)) return true;
  }
  return false;
}

Job::Job(TrainArgs args) : args_(std::move(args)), running_(args_) {}

void Job::divide_host(int jobs, int processors) {
  MemoryConfig& memory = running_.config.memory;
  std::optional<int64_t> copies = run_options(memory).host_budget;
  if (chooses_plan(memory)) copies = host_limit(memory);
  if (copies && !memory.host_budget->has_value()) memory.host_budget = Size{*copies / jobs};
  auto* images = std::get_if<ImageConfig>(&running_.config.data);
  if (images && !images->workers->has_value()) {
    images->workers = workers_of(*images, processors);
  }
}

// They stay out of config.yaml: a run may go on beside other jobs, or alone.
void Job::set_threads(int threads) {
  if (!args_.config.device.threads->has_value()) running_.config.device.threads = threads;
}

void Job::check_folder() {
  check_run();
  const int64_t ranks = args_.config.ranks;
  if (!args_.resume) {
    args_.config = with_ranks(args_.config, ranks);
    running_.config = with_ranks(running_.config, ranks);
    return;
  }
  // A run of an earlier version says nothing of ranks: it was one.
  const Config saved = with_ranks(load_config(args_.out / "config.yaml"), 1);
  for (Config* config : {&args_.config, &running_.config}) {
    if (allows(config->memory, "reordered")) *config = with_recording(*config, saved);
    *config = with_ranks(*config, ranks, &saved);
  }
  check_resume(args_, saved);
}

void Job::check_run() {
  const RankTalk ranks(args_.group);
  const bool held = ranks.of_first([&] { return holds_run(args_.out); });
  const bool saved = ranks.of_first([&] { return fs::exists(args_.out / "last.safetensors"); });
  if (args_.resume && !held) {
    throw UsageError(args_.out.string() + ": holds no run to resume; start it without --resume");
  }
  if (args_.resume && !saved) {
    const std::string kept = ranks.of_first([&] { return kept_checkpoint(args_.out); });
    if (!kept.empty()) {
      throw UsageError(
          args_.out.string() + ": has " + kept +
          ", but no last.safetensors to resume from; copy a step-N.safetensors to that "
          "name, or choose another --out");
    }
    log_info(args_.out.string() + ": stopped before its first checkpoint; starting at step 0");
    args_.resume = false;
  } else if (!args_.resume && !args_.dry_run && held) {
    throw UsageError(args_.out.string() +
                     ": holds a run already; go on with --resume, or choose "
                     "another --out");
  }
}

void Job::load() {
  running_.resume = args_.resume;
  task_ = make_task(running_);
  if (!args_.resume && chooses_plan(args_.config.memory)) pin_recording();
}

// Where several recordings are allowed, the run has the fastest from its first step on.
void Job::pin_recording() {
  if (!allows(args_.config.memory, "reordered")) return;
  const std::string name = RankTalk(args_.group).of_first([this] { return fastest_recording(); });
  if (name.empty()) return;
  log_info("auto: recorded with " + name + ", which is kept for the run");
  args_.config = with_named(args_.config, name);
  running_.config = with_named(running_.config, name);
  task_ = make_task(running_);
}

std::string Job::fastest_recording() const {
  const MemoryConfig& memory = running_.config.memory;
  Device device = training_device(running_.config);
  device.group = running_.group;
  KernelCache kernels(device);
  CompileOptions options = compile_options(memory);
  options.profile = profile_at_hand(device);
  const AutoPlanner planner(options, {.lossy = allows(memory, "lossy")});
  const auto bucket = largest_bucket(*task_, running_.config, kernels);
  return choose_recording(*task_, running_.config, bucket, planner, kernels,
                          {.device = (*memory.budget)->bytes, .host = host_limit(memory)})
      .recording.name;
}

void Job::prepare(PoolShare share) {
  share_ = std::move(share);
  trainer_ = std::make_unique<Trainer>(running_, std::move(task_), share_);
}

void Job::plan_all() { trainer_->add_all_programs(); }

StepShape Job::largest_step(const DeviceProfile& device) {
  const Compiled& c = trainer_->largest().compiled();
  return step_shape(args_.name, c.program, c.storages, c.plan, device);
}

std::vector<StepShape> Job::other_steps(const DeviceProfile& device) {
  std::vector<StepShape> out;
  for (Executable* program : trainer_->programs().all()) {
    if (program == &trainer_->largest()) continue;
    const Compiled& c = program->compiled();
    out.push_back(step_shape(args_.name, c.program, c.storages, c.plan, device));
  }
  return out;
}

std::optional<std::vector<int64_t>> Job::measured_times(bool last) {
  constexpr size_t kRuns = 4;
  Runner& runner = trainer_->largest().runner();
  if (!clock_) {
    clock_.emplace(kRuns).start(runner);
    return {};
  }
  clock_->look(runner);
  if (!clock_->done() && !last) return {};
  clock_->stop(runner);
  const NodeClock clock = *std::exchange(clock_, std::nullopt);
  if (!clock.done()) return {};
  return clock.typical();
}

void Job::release() {
  trainer_.reset();
  if (share_.pool) share_.pool->leave(share_.job);
}

void Job::describe() {
  log_info(trainer_->device_line());
  for (const std::string& line : trainer_->task().describe()) log_info(line);
  for (const std::string& line : plan_lines(trainer_->largest())) log_info(line);
  const Compiled& largest = trainer_->largest().compiled();
  const std::string code = text_of_code(nodes_by_code(largest.program, largest.kernels));
  if (!code.empty()) log_info("code    " + code);
}

std::string Job::plan() {
  const auto lengths = trainer_->task().bucket_lengths(trainer_->largest_bucket());
  return plan_json(trainer_->largest(), lengths);
}

int64_t Job::bytes() const { return trainer_->arena_bytes(); }

void Job::begin_folder() {
  if (running_.group && running_.group->rank() > 0) return;
  std::error_code error;
  std::filesystem::create_directories(args_.out, error);
  if (error) throw UsageError(args_.out.string() + ": cannot be made: " + error.message());
  write_text(args_.out / "config.yaml", dump_config(args_.config));
  write_text(args_.out / "plan.json", plan() + "\n");
  if (!args_.resume) trainer_->task().save_files(args_.out);
}

void Job::run(const std::atomic<bool>& stop, const std::function<bool()>& go_on) {
  reason_ = trainer_->run(stop, go_on);
}

bool Job::change_threads(int threads) {
  if (args_.config.device.threads->has_value() || !trainer_->may_renew_device()) return false;
  running_.config.device.threads = threads;
  trainer_->renew_device();
  return true;
}

nlohmann::json Job::summary() const {
  return {{"steps", trainer_->state().step},
          {"epoch", trainer_->state().epoch},
          {"reason", reason_},
          {"out", args_.out.string()},
          {"seconds", trainer_->seconds()}};
}

nlohmann::json Job::finish() {
  nlohmann::json done = summary();
  if (interrupted()) {
    log_info("interrupted at step " + std::to_string(trainer_->state().step) +
             "; go on with --resume --out " + args_.out.string());
    return done;
  }
  const Validation test = trainer_->evaluate_best("test");
  std::string line = "test   loss " + std::to_string(test.loss).substr(0, 6);
  for (auto& [name, value] : test.metrics) {
    line += "  " + name + " " + std::to_string(value).substr(0, 5);
    done["test"][name] = value;
  }
  done["test"]["loss"] = test.loss;
  log_info(line + "  (best.safetensors)");
  print_samples(test);
  trainer_->write_report(reason_, &test);
  const std::optional<int64_t> peak = process_peak_bytes();
  log_info("memory " + format_bytes(bytes()) + " planned, validation included" +
           (peak ? "; " + format_bytes(*peak) + " at the process's peak" : ""));
  log_info("report " + (args_.out / "report.html").string());
  return done;
}

}  // namespace pal
