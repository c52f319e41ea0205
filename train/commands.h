// The commands of `pal`: what the command line asks for, and the functions that do it. Each
// function returns an exit code, or throws pal::Error, which carries one. With `json`, it prints one JSON
// object on standard output and nothing else there.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "train/beam.h"
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

struct PlaceArgs {
  std::filesystem::path file;       // id,lower,upper,size
  std::optional<int64_t> capacity;  // bytes: enough as soon as it fits; BudgetError when it does not
  double time_limit = 10;           // seconds
  std::filesystem::path out;        // the file with an offset column; empty: none
  bool json = false;
};
int run_place(const PlaceArgs& args);

struct TranslateArgs {
  std::string model;                           // folders of runs: DIR[,DIR...]
  std::optional<std::filesystem::path> input;  // none: standard input
  bool json = false;
  BeamOptions beam = {};
  bool list = false;  // print the n best with their scores, also where n is 1
};
int run_translate(const TranslateArgs& args);

struct EvalArgs {
  std::string model;          // as above
  std::string part = "test";  // of the run's own corpus: valid or test, unless files are given:
  std::optional<std::filesystem::path> source, reference;  // both or none
  bool json = false;
  BeamOptions beam = {};
};
int run_eval(const EvalArgs& args);

struct ScoreArgs {
  std::string model;                      // as above
  std::filesystem::path source, target;  // as many lines each
  bool json = false;
};
int run_score(const ScoreArgs& args);

}  // namespace pal
