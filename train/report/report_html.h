// report.html: a run on one page. Self-contained: no script, nothing from a network.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/report/run_curves.h"

namespace pal {

struct RunReport {
  std::string name;                      // of the configuration
  std::string state;                     // "training", or why it ended: "steps", "patience", ...
  std::vector<std::string> described;    // corpus, vocabulary, buckets: Task::describe()
  std::vector<std::string> plan;         // plan_lines() of the largest step
  std::string front = {};                // front_html(): HTML; "": the plan is of no front
  std::vector<std::string> sparse = {};  // SparseSteps::described()
  std::vector<std::pair<std::string, int64_t>> bytes;  // at the peak, by role
  int64_t arena_bytes = 0, lower_bound_bytes = 0;
  int64_t run_bytes = 0;  // planned for the largest program, those of validation too
  std::optional<int64_t> process_peak_bytes = {};  // measured
  std::string unit = "tokens";                     // Task::unit(): what throughput counts
  std::string sample = "word";  // Task::loss_unit(): what the loss is a mean over
  std::string config;           // YAML, resolved
  std::vector<std::pair<std::string, std::string>> samples;  // source, output
  std::vector<std::pair<std::string, double>> test = {};     // metrics of the test part, at the end
};

// The page.
std::string report_html(const RunReport& report, const RunCurves& curves);
// Of the text of metrics.jsonl.
std::string report_html(const RunReport& report, const std::string& metrics);

// Writes folder/report.html, replaced as a whole; `curves` follows the metrics.jsonl beside it: a
// page of a long run takes no more memory or time than one of a short run. Error with kExitFailed
// when it cannot be written.
void save_report(const std::filesystem::path& folder, const RunReport& report, RunCurves& curves);

}  // namespace pal
