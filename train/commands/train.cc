// pal train: a run from its configuration to its last checkpoint.
#include <functional>
#include <optional>

#include "core/ranks/launch.h"
#include "core/ranks/processors.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/job.h"
#include "train/commands/launch_ranks.h"
#include "train/commands/stop_signal.h"
#include "train/loop/rank_talk.h"
#include "train/loop/ranks_of_run.h"
#include "train/run_files/log.h"

namespace pal {

namespace {

int train(const TrainArgs& args) {
  check_started_alike(args);
  Job job(args);
  job.check_folder();
  if (args.group) {
    const int processors = own_processors(*args.group);
    job.divide_host(args.group->local_size(), processors);
    job.set_threads(processors);
  }
  job.load();
  job.prepare();
  job.describe();
  const bool prints = args.json && !(args.group && args.group->rank() > 0);
  if (args.dry_run) return prints ? pal::print(job.plan() + "\n") : kExitDone;
  job.begin_folder();
  job.run(catch_stop_signals());
  const nlohmann::json summary = job.finish();
  if (prints)
    pal::print(summary.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return job.interrupted() ? kExitInterrupted : kExitDone;
}

// A rank that cannot go on ends the others too, once it has said why.
int train_as_rank(TrainArgs args, const std::shared_ptr<Group>& group) {
  args.config.ranks = group->size(), args.config.per_node = group->per_node();
  args.config.gpu = group->local_rank();
  group->set_timeout(*args.config.train.rank_timeout);
  args.group = group;
  catch_stop_signals();  // a launcher's, which would end a rank that is not there yet
  try {
    const int code = train(args);
    const RankTalk ranks(group);
    ranks.now("the end");
    ranks.meet();
    return code;
  } catch (...) {
    const Failure failure = failure_at_hand();
    log_end(failure.what);
    group->abandon(failure.exit_code);
  }
}

}  // namespace

int run_train(const TrainArgs& args) {
  forget_stop_signals();
  if (const std::shared_ptr<Group> group = ranks_at_hand()) return train_as_rank(args, group);
  return train(args);
}

namespace {

struct RankedRun {
  int64_t ranks;
  std::vector<std::string> arguments;
};
int run_ranks(const RankedRun& run) { return launch_ranks(run.ranks, run.arguments); }

struct TrainFlags {
  TrainArgs args;
  ConfigFlags config;
  std::string steps, device;
  bool dump = false;
  std::optional<int64_t> ranks;
  std::function<std::vector<std::string>()> of_each_rank;  // the flags that it is started with

  void declare(Flags& flags) {
    config.add(flags);
    flags.add("--steps", steps, "end when the step counter reaches N", {.type = "N"});
    flags.add("--out", args.out, "folder of the run (runs/NAME)", {.type = "DIR"});
    flags.add("--resume", args.resume, "go on with the run in --out");
    flags.add("--device", device, "cpu, cuda or auto", {.type = "D"});
    flags.add("--dump-config", dump, "print the resolved configuration and exit");
    flags.add("--ranks", ranks, "train with N processes of this machine (MPI)", {.type = "N"});
    flags.add("--dry-run", args.dry_run, "plan the step, print it, and train nothing");
    add_json(flags, args.json, "--dump-config");
    of_each_rank = flags.words_without("--ranks");
  }
  Request read() {
    std::vector<Override> overrides;
    // "--steps N ends when the counter reaches N", also when max_epochs would end the run earlier.
    if (!steps.empty()) {
      overrides.push_back({"train.max_epochs", "null", "--steps"});
      overrides.push_back({"train.steps", steps, "--steps"});
    }
    if (!device.empty()) overrides.push_back({"device.type", device, "--device"});
    // A run holds its own configuration: --resume --out DIR alone goes on with it.
    std::filesystem::path own;
    if (args.resume && !args.out.empty()) own = args.out / "config.yaml";
    args.config = config.read("train", own, overrides, args.name);
    if (ranks) check_range("--ranks", *ranks, 1, 4096);
    if (dump) return request<run_print>(PrintText{dump_config(args.config)});
    if (args.out.empty()) args.out = std::filesystem::path("runs") / args.name;
    const std::optional<Launch> launch = launch_at_hand();
    if (ranks && launch && launch->ranks != *ranks) {
      throw UsageError("--ranks: " + std::to_string(*ranks) + ", and " + launch->by + " says " +
                       std::to_string(launch->ranks) + "; leave it to the launcher");
    }
    if (ranks.value_or(1) > 1 && !launch) {
      std::vector<std::string> arguments = of_each_rank();
      arguments.insert(arguments.begin(), "train");
      return request<run_ranks>(RankedRun{*ranks, std::move(arguments)});
    }
    return request<run_train>(args);
  }
};

}  // namespace

Command train_command() {
  return command<TrainFlags>("train", "train a model; saves, validates and logs");
}

}  // namespace pal
