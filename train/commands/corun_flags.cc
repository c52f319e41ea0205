// What is asked of pal corun: its jobs, their folders, and how they share.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/corun_jobs.h"
#include "train/config/wording.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

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
