// Tables and figures of the papers, ours beside theirs. What is predicted and what
// is measured are columns of their own, and every table says which machine or profile it is for.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memory/compile.h"
#include "memory/price/predict.h"
#include "train/config/config.h"

namespace pal {

struct ReproducedTable {
  std::string title;                 // "Footprint by layer type, GB"
  std::vector<std::string> columns;  // the first names the rows
  std::vector<std::vector<std::string>> rows = {};
  std::vector<std::string> notes = {};  // one sentence each
};

// How much of a measurement is wanted; what is not given, the measurement chooses.
struct MeasureSettings {
  std::optional<int64_t> batch, steps, seeds;
  std::string config;             // what is trained, in place of its own choice
  std::vector<std::string> sets;  // as --set, over either
  // As of pal plan --density: numbers, folders of runs. Nothing is run for them.
  std::vector<std::string> densities = {};
};

struct Reproduction {
  const char* name;  // echo-fig15
  const char* what;  // "Echo, Figure 15: ..."
  std::vector<ReproducedTable> (*make)(const DeviceProfile& device) = nullptr;
  // In place of `make`: what runs steps on this machine.
  std::vector<ReproducedTable> (*measure)(const DeviceProfile& device,
                                          const MeasureSettings& settings) = nullptr;
  // Beside `make`: the same of other densities of maps than it assumes (--density).
  std::vector<ReproducedTable> (*by_density)(const DeviceProfile& device,
                                             const std::vector<std::string>& densities) = nullptr;
  const char* takes = "";         // of the settings, "batch steps"
  const char* profile = nullptr;  // of the paper's card; null: kDefaultProfile, or the measured
                                  // machine's where it has one
};

// What there is, by paper.
std::span<const Reproduction> echo_reproductions();
std::span<const Reproduction> echo_device_reproductions();
std::span<const Reproduction> echo_model_reproductions();
std::span<const Reproduction> olla_reproductions();
std::span<const Reproduction> zoo_reproductions();
std::span<const Reproduction> gist_reproductions();
std::span<const Reproduction> gist_encoded_reproductions();
std::span<const Reproduction> gist_priced_reproductions();
std::span<const Reproduction> gist_measured_reproductions();
std::span<const Reproduction> gist_trained_reproductions();
std::span<const Reproduction> delta_reproductions();
std::span<const Reproduction> zico_reproductions();        // of bytes over time
std::span<const Reproduction> zico_table_reproductions();  // of what tracking costs
std::span<const Reproduction> zico_bucket_reproductions();
std::span<const Reproduction> zico_rate_reproductions();  // of what sharing gains
std::span<const Reproduction> zico_accumulate_reproductions();
std::vector<Reproduction> reproductions();  // all of them

// A workload of a paper: a shipped configuration with changes, at a bucket.
struct Recipe {
  std::string config;             // nmt_iwslt
  std::vector<std::string> sets;  // as --set
  std::pair<int64_t, int64_t> bucket;
};

// Ranks that run a recipe together, each with its batch, over what joins them.
DeviceProfile joined(DeviceProfile device, const Links& links);

struct PlannedRecipe {
  Config config;
  Program recorded;  // before any pass
  Compiled step;
  double step_ms = 0;        // predicted
  double samples_per_s = 0;  // of all ranks

  double gb() const { return double(step.plan.device().bytes) * 1e-9; }
};
// For as many ranks as the device's links join. `adjust`, where given, changes the options of
// compile() that no configuration has.
PlannedRecipe plan_recipe(const Recipe& recipe, const DeviceProfile& device,
                          void (*adjust)(CompileOptions&) = nullptr);

// Which part of a scope makes a layer which type; the first that the scope contains decides.
using LayerTypes = std::vector<std::pair<const char*, const char*>>;
// Bytes at a plan's peak by layer type: "weights" with their gradients and the optimizer's state,
// the types, and `rest`.
std::map<std::string, int64_t> by_layer(const PlannedRecipe& plan, const LayerTypes& types,
                                        const char* rest);
// The same as a table: a column a plan, by name, a row for each of `order`, and one of sums.
ReproducedTable breakdown(const std::string& title, const std::vector<std::string>& names,
                          const std::vector<PlannedRecipe>& plans, const LayerTypes& types,
                          const char* rest, const std::vector<const char*>& order);

std::string gigabytes(int64_t bytes, int digits = 2);  // 1e9 bytes
std::string percent(double fraction);                  // 0.125 -> 12.5 %

}  // namespace pal
