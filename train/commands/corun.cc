// pal corun: several runs side by side in one process, a thread each.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/device.h"
#include "core/error.h"
#include "core/text.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/corun_jobs.h"
#include "train/commands/corun_memory.h"
#include "train/commands/job.h"
#include "train/commands/stop_signal.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

namespace fs = std::filesystem;
using Jobs = std::vector<std::unique_ptr<Job>>;

// Before what job i logs.
std::string job_prefix(size_t i, const TrainArgs& job) {
  return "[" + std::to_string(i + 1) + " " + job.name + "]";
}

template <class Phase> void each_job(const Jobs& jobs, Phase phase) {
  for (size_t i = 0; i < jobs.size(); ++i) {
    const TrainArgs& args = jobs[i]->args();
    const LogPrefix prefix(job_prefix(i, args));
    for_job(i, args.name, [&] { phase(*jobs[i]); });
  }
}

DeviceKind kind_of(const DeviceConfig& config) {
  if (*config.type == "auto") return choose_device(config).kind;
  return *config.type == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
}

// All on one kind of device, each in a folder of its own.
void check_pairs(const std::vector<TrainArgs>& jobs) {
  for (size_t i = 1; i < jobs.size(); ++i) {
    if (kind_of(jobs[i].config.device) != kind_of(jobs[0].config.device)) {
      throw UsageError(job_name(0, jobs[0].name) + " has device.type " +
                       *jobs[0].config.device.type + ", " + job_name(i, jobs[i].name) + " has " +
                       *jobs[i].config.device.type + ": give all the same with --device");
    }
    for (size_t j = 0; j < i; ++j) {
      if (fs::weakly_canonical(jobs[i].out) != fs::weakly_canonical(jobs[j].out)) continue;
      throw UsageError(job_name(j, jobs[j].name) + " and " + job_name(i, jobs[i].name) +
                       " have the same folder " + jobs[i].out.string() +
                       "; give each a folder of its own");
    }
  }
}

// A job that was stopped before its folder was begun begins when the others go on.
void check_resumed(CorunArgs& args) {
  if (!args.resume) return;
  const auto begun = [](const TrainArgs& job) { return holds_run(job.out); };
  if (std::none_of(args.jobs.begin(), args.jobs.end(), begun)) {
    throw UsageError(args.jobs[0].out.string() +
                     ": holds no run to resume, nor does another job's folder; start them without "
                     "--resume");
  }
  for (size_t i = 0; i < args.jobs.size(); ++i) {
    TrainArgs& job = args.jobs[i];
    job.resume = begun(job);
    const LogPrefix prefix(job_prefix(i, job));
    if (!job.resume) log_info(job.out.string() + ": holds no run yet; starting at step 0");
  }
}

std::string printed_json(const nlohmann::json& object) {
  // A name that is not UTF-8 is printed with replacement characters.
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// How a job ended.
struct Ended {
  int exit_code = kExitDone;
  std::string error;  // where it failed
  nlohmann::json summary;
};

// What all jobs look at between their steps.
struct Running {
  CorunMemory& memory;
  const std::atomic<bool>& stop;
  std::atomic<bool> device_failed{false};
};

void end_with(Ended& ended, const char* reason, const Failure& failure) {
  ended.exit_code = failure.exit_code, ended.error = failure.what;
  ended.summary["reason"] = reason, ended.summary["error"] = failure.what;
  log_error(failure.what);
}

// In a thread of its own. A job that fails frees what it has, and the others do not notice: but
// where the device has failed, there is nothing left to run on.
void run_job(size_t i, Job& job, Running& all, Ended& ended) {
  const LogPrefix prefix(job_prefix(i, job.args()));
  try {
    job.run(all.stop, [&] { return !all.device_failed && all.memory.before_step(i); });
    const std::string why = all.memory.why_ended(i);
    if (job.interrupted() && !all.stop && !why.empty()) {
      ended.summary = job.summary();
      end_with(ended, "budget", {kExitBudget, why});
    } else {
      ended.summary = job.finish();
      if (job.interrupted()) ended.exit_code = kExitInterrupted;
    }
  } catch (...) {
    const Failure failure = failure_at_hand();
    if (failure.of_device) all.device_failed = true;
    ended.summary = job.summary();
    end_with(ended, "failed", failure);
  }
  try {
    job.release();
    all.memory.left(i);
  } catch (...) {  // the others go on as they are
    log_warn(failure_at_hand().what);
  }
}

// "ended  step 40  epoch 3.33  12.1 s  (steps)  runs/corun_a_b/1"
std::string end_line(const nlohmann::json& summary) {
  return "ended  step " + std::to_string(summary["steps"].get<int64_t>()) + "  epoch " +
         fixed(summary["epoch"], 2) + "  " + fixed(summary["seconds"], 1) + " s  (" +
         summary["reason"].get<std::string>() + ")  " + summary["out"].get<std::string>();
}

// A line for each job, those that failed last. The exit code of all: a failure, else the signal.
int say_ends(const Jobs& jobs, const std::vector<Ended>& ends) {
  int code = kExitDone;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!ends[i].error.empty()) continue;
    if (ends[i].exit_code != kExitDone) code = ends[i].exit_code;
    const LogPrefix prefix(job_prefix(i, jobs[i]->args()));
    log_info(end_line(ends[i].summary));
  }
  if (code == kExitInterrupted) log_info("interrupted; go on with the same command and --resume");
  bool failed = false;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (ends[i].error.empty()) continue;
    if (!failed) code = ends[i].exit_code;
    failed = true;
    const TrainArgs& args = jobs[i]->args();
    log_error(job_name(i, args.name) + ", " + args.out.string() + ": " + ends[i].error);
  }
  return code;
}

}  // namespace

int run_corun(const CorunArgs& given) {
  forget_stop_signals();
  CorunArgs args = given;
  check_pairs(args.jobs);
  check_resumed(args);
  Jobs jobs;
  for (const TrainArgs& job : args.jobs) jobs.push_back(std::make_unique<Job>(job));
  each_job(jobs, [](Job& job) { job.check_folder(); });
  const int count = int(jobs.size());
  each_job(jobs, [&](Job& job) { job.divide_host(count, cpu_device().threads / count); });
  each_job(jobs, [](Job& job) { job.load(); });
  CorunMemory memory(jobs, args);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const LogPrefix prefix(job_prefix(i, jobs[i]->args()));
    for_job(i, jobs[i]->args().name, [&] {
      jobs[i]->prepare(memory.share(i));
      jobs[i]->plan_all();
    });
  }
  memory.choose();
  each_job(jobs, [](Job& job) { job.describe(); });
  for (const std::string& line : memory.lines()) log_info(line);
  nlohmann::json result{
      {"mode", name_of(args.mode)}, {"budget", args.budget}, {"memory", memory.json()}};
  if (args.dry_run) {
    if (!args.html.empty()) save_corun_page(args.html, memory.page());
    each_job(jobs, [&](Job& job) {
      result["jobs"].push_back({{"name", job.args().name},
                                {"out", job.args().out.string()},
                                {"bytes", job.bytes()},
                                {"plan", nlohmann::json::parse(job.plan())}});
    });
    return args.json ? print(printed_json(result)) : kExitDone;
  }
  log_info("a size written to " + (args.out / "budget").string() + " takes the budget's place");
  each_job(jobs, [](Job& job) { job.begin_folder(); });
  Running all{.memory = memory, .stop = catch_stop_signals()};
  std::vector<Ended> ends(jobs.size());
  {
    std::vector<std::jthread> running;
    for (size_t i = 0; i < jobs.size(); ++i) {
      running.emplace_back([&, i] { run_job(i, *jobs[i], all, ends[i]); });
    }
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    ends[i].summary["name"] = jobs[i]->args().name;
    result["jobs"].push_back(ends[i].summary);
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    const LogPrefix prefix(job_prefix(i, jobs[i]->args()));
    if (const std::string line = memory.waits_line(i); !line.empty()) log_info(line);
  }
  const int code = say_ends(jobs, ends);
  if (args.json) print(printed_json(result));
  return code;
}

}  // namespace pal
