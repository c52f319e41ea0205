// pal train: a run from its configuration to its last checkpoint.
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/atomic_file.h"
#include "memory/plan/report.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/loop/trainer.h"
#include "train/report/plan_report.h"
#include "train/run_files/log.h"
#include "train/run_files/process_memory.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

// Set by a signal, read between steps.
std::atomic<bool> stop_requested{false};

void on_signal(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);  // a second one ends the process at once
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path.string());
  file.write(text.data(), text.size());
  file.commit();
}

bool holds_run(const std::filesystem::path& dir) {
  for (const char* name : {"config.yaml", "metrics.jsonl", "last.safetensors"}) {
    if (std::filesystem::exists(dir / name)) return true;
  }
  return false;
}

// --resume may change nothing that alters results.
void check_resume(const TrainArgs& args) {
  const auto saved = args.out / "config.yaml";
  std::string changed;
  // Where validations steer the learning rate, their rhythm alters results.
  const bool steered = *args.config.train.schedule == "plateau";
  for (const Difference& d : diff(load_config(saved), args.config)) {
    if (!d.alters_results && !(steered && d.key == "train.valid_every")) continue;
    changed += (changed.empty() ? "" : ", ") + d.key + " " + d.a + " -> " + d.b;
  }
  if (!changed.empty()) {
    throw UsageError("--resume: this would change results: " + changed +
                     "; resume with the run's own options, or choose another --out");
  }
}

void begin_folder(const TrainArgs& args, Trainer& trainer) {
  std::error_code error;
  std::filesystem::create_directories(args.out, error);
  if (error) throw UsageError(args.out.string() + ": cannot be made: " + error.message());
  write_text(args.out / "config.yaml", dump_config(args.config));
  const auto lengths = trainer.task().bucket_lengths(trainer.largest_bucket());
  write_text(args.out / "plan.json", plan_json(trainer.largest(), lengths) + "\n");
  if (!args.resume) trainer.task().save_files(args.out);
}

void print_samples(const Validation& result) {
  for (auto& [source, output] : result.samples) {
    log_info("  " + source);
    log_info("    -> " + output);
  }
}

}  // namespace

int run_train(const TrainArgs& given) {
  TrainArgs args = given;
  if (args.resume && !holds_run(args.out)) {
    throw UsageError(args.out.string() + ": holds no run to resume; start it without --resume");
  }
  if (args.resume && !std::filesystem::exists(args.out / "last.safetensors")) {
    log_info(args.out.string() + ": stopped before its first checkpoint; starting at step 0");
    args.resume = false;
  } else if (args.resume) {
    check_resume(args);
  } else if (!args.dry_run && holds_run(args.out)) {
    throw UsageError(args.out.string() +
                     ": holds a run already; go on with --resume, or choose "
                     "another --out");
  }
  Trainer trainer(args, make_task(args));
  log_info(trainer.device_line());
  for (const std::string& line : trainer.task().describe()) log_info(line);
  for (const std::string& line : plan_lines(trainer.largest())) log_info(line);
  if (args.dry_run) {
    const auto lengths = trainer.task().bucket_lengths(trainer.largest_bucket());
    return args.json ? print(plan_json(trainer.largest(), lengths) + "\n") : kExitDone;
  }
  begin_folder(args, trainer);
  stop_requested = false;
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  const std::string reason = trainer.run(stop_requested);
  nlohmann::json summary{{"steps", trainer.state().step},
                         {"epoch", trainer.state().epoch},
                         {"reason", reason},
                         {"out", args.out.string()},
                         {"seconds", trainer.seconds()}};
  if (reason == "interrupted") {
    log_info("interrupted at step " + std::to_string(trainer.state().step) +
             "; go on with --resume --out " + args.out.string());
  } else {
    const Validation test = trainer.evaluate_best("test");
    std::string line = "test   loss " + std::to_string(test.loss).substr(0, 6);
    for (auto& [name, value] : test.metrics) {
      line += "  " + name + " " + std::to_string(value).substr(0, 5);
      summary["test"][name] = value;
    }
    summary["test"]["loss"] = test.loss;
    log_info(line + "  (best.safetensors)");
    print_samples(test);
    trainer.write_report(reason, &test);
    const std::optional<int64_t> peak = process_peak_bytes();
    log_info("memory " + format_bytes(trainer.arena_bytes()) + " planned, validation included" +
             (peak ? "; " + format_bytes(*peak) + " at the process's peak" : ""));
    log_info("report " + (args.out / "report.html").string());
  }
  if (args.json) print(summary.dump() + "\n");
  return reason == "interrupted" ? kExitInterrupted : kExitDone;
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
