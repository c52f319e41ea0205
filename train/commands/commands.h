// The commands as functions: what each is told, and what it does. A function returns an exit code,
// or throws pal::Error, which carries one. With `json`, it prints one JSON object on standard
// output and nothing else there. The flags of a command stand in its own file (command.h).
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory/share/corun_plan.h"
#include "train/config/config.h"
#include "train/loop/train_args.h"
#include "train/papers/reproduce.h"
#include "train/translation/beam.h"

namespace pal {

int run_train(const TrainArgs& args);

// How the jobs of `pal corun` share the device's memory.
enum class CorunMode : uint8_t {
  automatic,  // side by side in one memory, or in turns: what is predicted to do more
  shared,     // side by side in one memory
  turns,      // a step at a time
  minutes,    // a job at a time, for some minutes
  unshared,   // each has its own
};
constexpr auto names(CorunMode) {
  return std::array{"auto", "shared", "turns", "minutes", "unshared"};
}

// Who decides when jobs that share go on.
enum class CorunScheduler : uint8_t {
  planned,  // the plans of all, beforehand
  zico,     // the paper's, which learns while they run; for comparison
};
constexpr auto names(CorunScheduler) { return std::array{"planned", "zico"}; }

struct CorunArgs {
  std::vector<TrainArgs> jobs;  // with the folder of each
  int64_t budget = 0;           // bytes of the device's memory, for all together
  CorunMode mode = CorunMode::automatic;
  CorunScheduler scheduler = CorunScheduler::planned;
  CorunGoal goal = CorunGoal::total;
  double minutes = 1;          // that a turn lasts, with mode minutes
  std::filesystem::path out;   // where the file `budget` may say another budget
  std::filesystem::path html;  // of a dry run: where a page goes too; empty: nowhere
  std::string profile;         // whose times decide; empty: this processor's, if measured
  bool resume = false;         // jobs whose folder holds a run go on with it
  bool dry_run = false;        // plan the jobs, print that, and train nothing
  bool json = false;
};
// Several runs side by side, a thread each. The exit code is that of the first job that failed.
int run_corun(const CorunArgs& args);

// What went wrong, and the exit code that it asks for.
struct Failure {
  int exit_code = 0;
  std::string what;
  bool of_device = false;  // which may answer nobody any more
};
// Of the exception that is being handled.
Failure failure_at_hand();

// Text for standard output: help, a version, a resolved configuration.
struct PrintText {
  std::string text;
};
int run_print(const PrintText& args);
// The same for a command's result. Error with kExitFailed when it cannot be written.
int print(const std::string& text);

struct PlanArgs {
  Config config;  // memory.budget holds --budget
  std::string name;
  std::optional<std::pair<int64_t, int64_t>> bucket;  // source, target length; none: the largest
  std::filesystem::path html;                         // where a page goes too; empty: nowhere
  std::filesystem::path
      lifetimes;                // where the transients go as a file for pal place; empty: nowhere
  std::string density;          // of sparse maps: a number or a run's folder; empty: 0.5
  std::filesystem::path probe;  // a run whose formats are to be chosen; empty: none, and no plan
  double probe_error = 0.01;    // that a format may cause at most
  std::string profile;      // of the device that times are predicted for; empty: default_profile()
  bool front = false;       // the front in place of the plan that is asked for
  bool max_batch = false;   // also find the largest batch that fits,
  std::string max_depth;    // and the largest value of this option; empty: of none
  bool max_length = false;  // and the longest samples
  // Of these, with a plan that is chosen: what it may cost; none: anything.
  std::optional<double> max_overhead;
  std::shared_ptr<const Links> links;  // of --devices, as many as config.ranks; null: of none
  bool json = false;
};
int run_plan(const PlanArgs& args);

struct BenchArgs {
  std::filesystem::path out;  // empty: cpu_profile_path(), measured_link_path()
  bool json = false;
};
// `pal bench --profile`: measures this machine's processor and writes its profile.
int run_bench(const BenchArgs& args);
// `pal bench --link`: measures what joins the ranks of this launch, and writes it; where there is
// no launch, two ranks of this machine.
int run_bench_link(const BenchArgs& args);

// `pal bench --kernels`.
struct BenchKernelsArgs {
  Config config;
  std::string name;                                   // of the configuration
  std::optional<std::pair<int64_t, int64_t>> bucket;  // none: the largest
  std::string profile;                                // of the device that times are predicted for
  bool all = false;                                   // print every operator
  bool json = false;
};
int run_bench_kernels(const BenchKernelsArgs& args);

struct ReproduceArgs {
  std::string name;     // echo-fig15
  std::string profile;  // a device profile's name or path; empty: the papers' card
  bool list = false;
  bool json = false;
  MeasureSettings measure = {};  // of what is measured here
};
// UsageError where a setting is given that the table does not take.
int run_reproduce(const ReproduceArgs& args);

struct PlaceArgs {
  std::filesystem::path file;  // id,lower,upper,size
  std::optional<int64_t>
      capacity;               // bytes: enough as soon as it fits; BudgetError when it does not
  double time_limit = 10;     // seconds
  std::filesystem::path out;  // the file with an offset column; empty: none
  bool json = false;
};
int run_place(const PlaceArgs& args);

struct TranslateArgs {
  std::string model;                           // folders of runs: DIR[,DIR...]
  std::optional<std::filesystem::path> input;  // none: standard input
  bool json = false;
  BeamOptions beam = {};
  bool list = false;    // print the n best with their scores, also where n is 1
  bool strict = false;  // the first line that is no text ends it
};
// Lines are translated in groups, in their order. UsageError, after all others were translated,
// where a line is no text: it has an empty translation.
int run_translate(const TranslateArgs& args);

struct EvalArgs {
  std::string model;          // as above
  std::string part = "test";  // of the run's own corpus: valid or test, unless files are given:
  std::optional<std::filesystem::path> source, reference;  // both or none
  bool json = false;
  BeamOptions beam = {};
};
int run_eval(const EvalArgs& args);

struct ClassifyArgs {
  std::string model;  // as above
  std::vector<std::filesystem::path> files;
  int64_t top = 5;      // classes to print of each
  bool strict = false;  // the first file that will not do ends it
  bool json = false;
};
// UsageError, after all others were classified, where a file could not be.
int run_classify(const ClassifyArgs& args);

struct TranscribeArgs {
  std::filesystem::path model;  // a run's folder, or a .safetensors file in it
  std::vector<std::filesystem::path> files;
  int64_t beam = 1;     // 1: the best path
  bool strict = false;  // as above
  bool json = false;
};
// UsageError as run_classify.
int run_transcribe(const TranscribeArgs& args);

struct AverageArgs {
  std::filesystem::path folder;  // of a run that kept checkpoints
  int64_t last = 5;
  std::filesystem::path out;  // a .safetensors file of weights
  bool json = false;
};
int run_average(const AverageArgs& args);

struct ScoreArgs {
  std::string model;                     // as above
  std::filesystem::path source, target;  // as many lines each
  bool json = false;
};
int run_score(const ScoreArgs& args);

}  // namespace pal
