// A number, or the rows of a run.
#include "train/report/plan_densities.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "core/error.h"
#include "train/config/wording.h"

namespace pal {
namespace {

constexpr double kAssumed = 0.5;

std::optional<double> number_in(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || !(number >= 0 && number <= 1)) return {};
  return number;
}

// A value that a run may have counted, in a layer that is here too (layer_of()).
bool is_map(const Program& p, const MapDensity& map) {
  if (map.value < 0 || size_t(map.value) >= p.values.size()) return false;
  const Value& value = p.value(ValueId(map.value));
  if (value.producer == kNone || p.node(value.producer).phase != Phase::forward) return false;
  if (value.role != Role::feature_map) return false;
  if (map.layer.find(' ') == std::string::npos) return true;
  return std::any_of(p.scopes.begin(), p.scopes.end(), [&](const std::string& scope) {
    return !scope.empty() && (map.layer.compare(0, scope.size() + 1, scope + " ") == 0 ||
                              map.layer.find(" after " + scope) != std::string::npos);
  });
}

// Its maker is the run's, or has the run's kernel's place: a kernel of two operators has the scope
// of the first.
bool is_same_map(const Program& p, const MapDensity& map) {
  if (!is_map(p, map)) return false;
  const Node& maker = p.node(p.value(ValueId(map.value)).producer);
  if (layer_of(p, maker) == map.layer) return true;
  const std::string scope = p.scope_of(maker);
  return scope.empty() || map.layer.compare(0, scope.size() + 1, scope + " ") == 0;
}

// "train/30x40/only" -> "30,40"
std::string bucket_in(const std::string& program) {
  const size_t begin = program.find('/') + 1;
  std::string lengths = program.substr(begin, program.find('/', begin) - begin);
  const size_t at = lengths.find('x');
  if (at != std::string::npos) lengths[at] = ',';
  return lengths;
}

}  // namespace

PlanDensities::PlanDensities(const std::string& text, bool sparse) {
  if (!sparse) {
    if (text.empty()) return;
    throw UsageError(
        "--density: memory.encode does not have ssdc, so no map is to be sparse; add "
        "it (--set memory.encode=[ssdc]) or leave --density out");
  }
  assumed_ = text.empty() ? kAssumed : number_in(text);
  if (assumed_) return;
  if (!std::filesystem::is_directory(text)) {
    throw UsageError("--density: '" + one_line(text) +
                     "' is neither a number from 0 to 1 nor a run's folder");
  }
  run_ = text;
  const std::filesystem::path file = std::filesystem::path(text) / "metrics.jsonl";
  std::ifstream in(file, std::ios::binary);
  measured_ = largest_densities(in);
  if (measured_.empty()) {
    throw UsageError("--density: " + file.string() +
                     " has no densities; give a number from 0 to 1, or a run that was trained with "
                     "memory.encode: [ssdc] for train.log_every steps at least");
  }
}

void PlanDensities::throw_other_model(const MapDensity& map) const {
  throw UsageError("--density: " + run_ + " is of another model: its value " +
                   std::to_string(map.value) + " (" + map.layer +
                   ") is no feature map of this one; plan with that run's config.yaml");
}

void PlanDensities::put_into(Encodings& encodings, const std::string& name,
                             const Program& recorded) const {
  encodings.assumed_density = assumed_;
  if (run_.empty()) return;
  const auto program = measured_.find(name);
  if (program == measured_.end()) {
    std::string known;
    for (const auto& other : measured_) known += (known.empty() ? "" : ", ") + other.first;
    throw UsageError("--density: " + run_ + " has densities of " + known + ", and not of " + name +
                     "; plan that step (--bucket " + bucket_in(measured_.begin()->first) +
                     ", and train.accumulate as there), or give a number");
  }
  for (const auto& [value, map] : program->second) {
    if (!is_map(recorded, map)) throw_other_model(map);
    encodings.density[ValueId(value)] = map.density;
  }
}

void PlanDensities::put_into(Encodings& encodings, const Program& recorded) const {
  encodings.assumed_density = assumed_;
  for (const auto& [program, maps] : measured_) {
    for (const auto& [value, map] : maps) {
      if (!is_same_map(recorded, map)) throw_other_model(map);
      double& density = encodings.density[ValueId(value)];
      density = std::max(density, map.density);
    }
  }
}

}  // namespace pal
