// pal corun: several runs side by side in one process, a thread each.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/error.h"
#include "core/text.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
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

// "job 2 (nmt_small)"; jobs are counted from 1.
std::string job_name(size_t i, const std::string& name) {
  return "job " + std::to_string(i + 1) + " (" + name + ")";
}

// Before what job i logs.
std::string job_prefix(size_t i, const TrainArgs& job) {
  return "[" + std::to_string(i + 1) + " " + job.name + "]";
}

// Calls work(); an error of it names the job.
template <class Work> void for_job(size_t i, const std::string& name, Work work) {
  try {
    work();
  } catch (const UsageError& e) {
    throw UsageError(job_name(i, name) + ": " + e.what());
  } catch (const Error& e) {
    throw Error(e.exit_code, job_name(i, name) + ": " + e.what());
  }
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
  CorunArgs args = given;
  check_pairs(args.jobs);
  check_resumed(args);
  Jobs jobs;
  for (const TrainArgs& job : args.jobs) jobs.push_back(std::make_unique<Job>(job));
  each_job(jobs, [](Job& job) { job.check_folder(); });
  each_job(jobs, [&](Job& job) { job.divide_host(int(jobs.size())); });
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

namespace {

// "2:train.lr=0.1" is for job 2, "train.lr=0.1" for all.
struct JobSet {
  std::optional<size_t> job;  // counted from 0
  std::string assignment;
};

JobSet parse_job_set(const std::string& text, size_t jobs) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits == text.size() || text[digits] != ':') return {{}, text};
  size_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + digits, number);
  if (read.ec != std::errc() || number < 1 || number > jobs) {
    throw UsageError("--set: " + one_line(text) + ": there is no job " + text.substr(0, digits) +
                     "; the jobs are 1 to " + std::to_string(jobs));
  }
  return {number - 1, text.substr(digits + 1)};
}

struct CorunFlags {
  CorunArgs args;
  std::vector<std::string> jobs, set;
  std::string budget, steps, device, mode = name_of(CorunMode::automatic);
  std::string scheduler = name_of(CorunScheduler::planned), goal = name_of(CorunGoal::total);
  double minutes = std::numeric_limits<double>::quiet_NaN();  // not given
  fs::path out;

  void declare(Flags& flags) {
    flags.add("JOB", jobs,
              "two or more: a configuration, as --config of pal train takes it, or the folder of a "
              "run, which lends its configuration, or goes on with --resume",
              {.type = "A B...", .required = true});
    flags.add("--budget", budget, "bytes of the device's memory for all jobs, e.g. 11GiB",
              {.type = "SIZE", .required = true});
    flags.add("--set", set,
              "override an option, of job N or of all: --set 2:train.lr=0.001 (repeatable)",
              {.type = "[N:]KEY=VALUE", .repeatable = true});
    flags.add("--steps", steps, "a job ends when its step counter reaches N", {.type = "N"});
    flags.add("--out", out,
              "the jobs' folders are DIR/1, DIR/2, ... (runs/corun_A_B); a size in the file "
              "DIR/budget takes the place of --budget while they run",
              {.type = "DIR"});
    flags.add("--resume", args.resume, "go on with the runs in the jobs' folders");
    flags.add("--device", device, "cpu, cuda or auto", {.type = "D"});
    flags.add("--mode", mode,
              "how memory is shared: side by side in one pool (shared), a step at a time (turns), "
              "what does more, as predicted and measured (auto), a job at a time for --minutes "
              "(minutes), each "
              "has its own (unshared)",
              {.type = "M"});
    flags.add("--minutes", minutes, "that a job's turn lasts with --mode minutes (1)",
              {.type = "N"});
    flags.add("--scheduler", scheduler,
              "who decides when jobs that share go on: their plans, beforehand (planned), or "
              "Zico's scheduler, which learns while they run (zico, for comparison)",
              {.type = "S"});
    flags.add("--goal", goal,
              "total: the most steps of all jobs together, or fair: no job slower than in turns",
              {.type = "G"});
    flags.add("--profile", args.profile,
              "the device whose predicted times decide: cpu, as measured by pal bench --profile, "
              "or a card's",
              {.type = "NAME"});
    flags.add("--dry-run", args.dry_run, "plan the jobs, print that, and train nothing");
    flags.add("--html", args.html, "with --dry-run: also write a page of pictures",
              {.type = "FILE"});
    add_json(flags, args.json);
  }

  Request read() {
    if (!args.html.empty() && !args.dry_run) {
      throw UsageError("--html: the page shows a plan; give it with --dry-run");
    }
    if (jobs.size() < 2) {
      throw UsageError("corun: one job is not enough; give two or more, or use pal train");
    }
    try {
      args.budget = parse_size(budget).bytes;
    } catch (const UsageError& e) {
      throw UsageError(std::string("--budget: ") + e.what());
    }
    read_choice("--mode", mode, args.mode);
    read_choice("--scheduler", scheduler, args.scheduler);
    read_choice("--goal", goal, args.goal);
    const bool may_share = args.mode == CorunMode::automatic || args.mode == CorunMode::shared;
    if (args.scheduler == CorunScheduler::zico && !may_share) {
      throw UsageError(
          "--scheduler zico: only with --mode auto or shared are there jobs that share");
    }
    if (args.scheduler == CorunScheduler::zico && args.goal == CorunGoal::fair) {
      throw UsageError("--scheduler zico: knows no --goal fair; leave one of them out");
    }
    const bool given = !std::isnan(minutes);
    if (given && args.mode != CorunMode::minutes) {
      throw UsageError("--minutes: only with --mode minutes do turns last so long");
    }
    constexpr double kMost = 1e6;
    args.minutes = given ? minutes : 1;
    if (!(args.minutes > 0 && args.minutes <= kMost)) {
      throw UsageError("--minutes: a turn lasts longer than none, and at most 1000000 minutes");
    }
    for (size_t i = 0; i < jobs.size(); ++i) args.jobs.push_back(job(i));
    place_folders();
    Request request = pal::request<run_corun>(args);
    request.many_teams = true;
    return request;
  }

 private:
  template <class E> static void read_choice(const char* flag, const std::string& text, E& out) {
    if (read_name(text, out)) return;
    const auto all = names(E{});
    throw UsageError(std::string(flag) + ": '" + one_line(text) + "' is not one of " +
                     comma_list({all.begin(), all.end()}));
  }

  TrainArgs job(size_t i) const {
    std::vector<Override> overrides;
    TrainArgs job;
    for (const std::string& text : set) {
      const JobSet one = parse_job_set(text, jobs.size());
      if (one.job.value_or(i) == i) overrides.push_back(parse_set(one.assignment));
    }
    // As pal train: the counter decides, also when max_epochs would end the run earlier.
    if (!steps.empty()) {
      overrides.push_back({"train.max_epochs", "null", "--steps"});
      overrides.push_back({"train.steps", steps, "--steps"});
    }
    if (!device.empty()) overrides.push_back({"device.type", device, "--device"});
    const fs::path folder = (fs::path(jobs[i]) / "").lexically_normal().parent_path();
    const bool run = fs::is_regular_file(folder / "config.yaml");
    const fs::path file =
        run ? folder / "config.yaml" : find_config(jobs[i], "corun: job " + std::to_string(i + 1));
    for_job(i, jobs[i], [&] { job.config = load_config(file, overrides); });
    job.name = run ? run_name(folder) : file.stem().string();
    if (run && args.resume) job.out = folder;
    job.dry_run = args.dry_run;
    return job;
  }

  // The folder's; "corun_a_b-1" of runs/corun_a_b/1.
  static std::string run_name(const fs::path& folder) {
    std::string name = folder.filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) return name;
    const std::string parent = fs::absolute(folder).parent_path().filename().string();
    return parent.empty() ? name : parent + "-" + name;
  }

  void place_folders() {
    const fs::path beside = args.jobs[0].out.parent_path();
    const auto is_of_that_run = [&](const TrainArgs& job) {
      return !job.out.empty() && job.out.parent_path() == beside;
    };
    if (out.empty() && std::all_of(args.jobs.begin(), args.jobs.end(), is_of_that_run)) {
      out = beside;
    } else if (out.empty()) {
      std::string name = "corun";
      for (const TrainArgs& job : args.jobs) name += "_" + job.name;
      out = fs::path("runs") / name;
    } else if (std::none_of(args.jobs.begin(), args.jobs.end(),
                            [](const TrainArgs& job) { return job.out.empty(); })) {
      throw UsageError(
          "--out: with --resume each of these jobs goes on in its own folder; leave "
          "it out");
    }
    for (size_t i = 0; i < args.jobs.size(); ++i) {
      if (args.jobs[i].out.empty()) args.jobs[i].out = out / std::to_string(i + 1);
    }
    args.out = out;
  }
};

}  // namespace

Command corun_command() {
  return command<CorunFlags>("corun", "train several models side by side within one budget");
}

}  // namespace pal
