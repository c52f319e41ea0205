// metrics.jsonl: what happened in a run, one JSON object a line.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/append_file.h"

namespace pal {

// A training step of the run was compiled; `step` is how many updates had been made.
struct PlanRow {
  int64_t step = 0;
  std::string program;                           // "train/30x40/only"
  int64_t source_length = 0, target_length = 0;  // the bucket
  int64_t nodes = 0, values = 0;
  int64_t total_bytes = 0, arena_bytes = 0, lower_bound_bytes = 0;
  double compile_seconds = 0;
};
// One optimizer update (every train.log_every of them).
struct StepRow {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0, lr = 0, grad_norm = 0;
  double samples_per_s = 0, tokens_per_s = 0, step_ms = 0;
  int64_t arena_bytes = 0, peak_bytes = 0;
  std::optional<int64_t> process_peak_bytes = {};  // so far, of all that the process holds
  // The step's plan, where bytes leave the device in it: counts and predicted times, by name.
  nlohmann::ordered_json traffic = {};
};
// Nonzeros of a map, as parts of its elements.
struct MapDensity {
  int32_t value = -1;  // its number in the step as it was recorded
  std::string layer;   // "features/3 relu"
  int64_t elements = 0;
  double density = 0;
  std::string form = {};                // "csr", "mask"; "": it is dense
  std::optional<double> capacity = {};  // of that form
};
struct DensityRow {
  int64_t step = 0;
  std::string program;  // "train/30x40/only"
  std::vector<MapDensity> maps;
};
// A line of the file as a row: an object with an event and a step from 0 on. Nothing where it is
// none; without what lies deeper than anything of ours.
std::optional<nlohmann::ordered_json> row_in(const std::string& line);
// The largest density of each map, by program and value, of all density rows of that file. Lines
// that are no rows, and maps that are none, are passed over. Empty where there is no such row.
std::map<std::string, std::map<int32_t, MapDensity>> largest_densities(std::istream& in);
// A micro-batch that had more nonzeros than there was room for, and was run again on a dense plan.
struct OverflowRow {
  int64_t step = 0, micro_batch = 0;
  std::string program;
  std::vector<std::string> layers;  // where
};
struct ValidRow {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0;
  std::vector<std::pair<std::string, double>> metrics;  // {"bleu", 23.1}
};
struct EndRow {
  int64_t step = 0;
  double epoch = 0;
  std::string reason;       // "steps", "max_epochs", "patience", "interrupted", "nan"
  double seconds = 0;       // of this process
  int64_t arena_bytes = 0;  // of all programs, those of validation too
  std::optional<int64_t> process_peak_bytes = {};
};

// What a run that goes on after update `step` has to know of the rows that it keeps, each of which
// goes to `keep` as it is read, with its line break. A line in the middle that is no row is a
// UsageError that names the file.
struct RowsUntil {
  std::vector<std::string> plans;  // their plan rows, without their times
  bool was_done = false;           // the end row of a run that was done at that step was there
  std::string last_valid;          // the row of a validation at that step
};
RowsUntil rows_until(std::istream& in, int64_t step, const std::string& name,
                     const std::function<void(const std::string& line)>& keep);

// Appends rows, each flushed as it is written. NaN and infinity become null. A failed write (full
// disk) throws Error with kExitFailed that names the file.
class MetricsWriter {
 public:
  // Starts the file anew.
  static MetricsWriter create(const std::filesystem::path& file);
  // Goes on after a checkpoint made at update `step`: rows of later steps, end rows, and a last
  // line that was torn are removed first, so that a resumed log equals an uninterrupted one. (Write
  // a validation's row before saving the checkpoint of the same step.) A file that is absent is
  // started; a line in the middle that is no row is a UsageError. Error with kExitFailed: a file
  // that cannot be read to its end, which stays as it is.
  static MetricsWriter resume(const std::filesystem::path& file, int64_t step);
  // Whether resume() met the end row of a run that was done at that step.
  bool was_done() const { return was_done_; }

  // A plan row equal to one that the file holds (but for the time it took) is not written again:
  // a resumed run compiles its programs anew.
  void write(const PlanRow& row);
  void write(const StepRow& row);
  void write(const DensityRow& row);
  void write(const OverflowRow& row);
  // Nor is that of a validation which is made up at the step that resume() went on from.
  void write(const ValidRow& row);
  void write(const EndRow& row);

 private:
  explicit MetricsWriter(AppendFile file) : file_(std::move(file)) {}
  void append(const std::string& line) { file_.append(line + "\n"); }

  AppendFile file_;
  std::vector<std::string> plans_;  // the plan rows the file holds, without their times
  bool was_done_ = false;
  std::string last_valid_;  // the row of a validation at that step
};

}  // namespace pal
