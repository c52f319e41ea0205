// The commands of `pal`: what the command line asks for, and the functions that do it. Each
// function returns an exit code, or throws pal::Error, which carries one. With `json`, it prints one JSON
// object on standard output and nothing else there.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "train/config.h"

namespace pal {

struct TrainArgs {
  Config config;             // read, overridden by --set, --steps and --device, and checked
  std::string name;          // the configuration's name: nmt_small
  std::filesystem::path out;  // the run's folder; runs/NAME unless told
  bool resume = false;
  bool dry_run = false;  // plan, print, and train nothing
  bool json = false;
};
int run_train(const TrainArgs& args);

struct PlanArgs {
  Config config;  // memory.budget holds --budget
  std::string name;
  std::optional<std::pair<int64_t, int64_t>> bucket;  // source, target length; none: the largest
  bool json = false;
};
int run_plan(const PlanArgs& args);

struct TranslateArgs {
  std::filesystem::path model;                 // the folder of a run
  std::optional<std::filesystem::path> input;  // none: standard input
  bool json = false;
};
int run_translate(const TranslateArgs& args);

struct EvalArgs {
  std::filesystem::path model;
  std::string part = "test";  // of the run's own corpus: valid or test, unless files are given:
  std::optional<std::filesystem::path> source, reference;  // both or none
  bool json = false;
};
int run_eval(const EvalArgs& args);

}  // namespace pal
