// pal train: a run from its configuration to its last checkpoint.
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/job.h"
#include "train/commands/stop_signal.h"

namespace pal {

int run_train(const TrainArgs& args) {
  Job job(args);
  job.check_folder();
  job.load();
  job.prepare();
  job.describe();
  if (args.dry_run) return args.json ? print(job.plan() + "\n") : kExitDone;
  job.begin_folder();
  job.run(catch_stop_signals());
  const nlohmann::json summary = job.finish();
  if (args.json) print(summary.dump() + "\n");
  return job.interrupted() ? kExitInterrupted : kExitDone;
}

namespace {

struct TrainFlags {
  TrainArgs args;
  ConfigFlags config;
  std::string steps, device;
  bool dump = false;

  void declare(Flags& flags) {
    config.add(flags);
    flags.add("--steps", steps, "end when the step counter reaches N", {.type = "N"});
    flags.add("--out", args.out, "folder of the run (runs/NAME)", {.type = "DIR"});
    flags.add("--resume", args.resume, "go on with the run in --out");
    flags.add("--device", device, "cpu, cuda or auto", {.type = "D"});
    flags.add("--dump-config", dump, "print the resolved configuration and exit");
    flags.add("--dry-run", args.dry_run, "plan the step, print it, and train nothing");
    add_json(flags, args.json, "--dump-config");
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
    if (dump) return request<run_print>(PrintText{dump_config(args.config)});
    if (args.out.empty()) args.out = std::filesystem::path("runs") / args.name;
    return request<run_train>(args);
  }
};

}  // namespace

Command train_command() {
  return command<TrainFlags>("train", "train a model; saves, validates and logs");
}

}  // namespace pal
