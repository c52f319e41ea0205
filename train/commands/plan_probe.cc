// Probing, and printing what came out.
#include "train/commands/plan_probe.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/names.h"
#include "core/text.h"
#include "train/config/wording.h"
#include "train/loop/probe_precision.h"
#include "train/run_files/saved_run.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

using Proposed = std::vector<std::pair<std::string, Dpr>>;

// "memory.dpr_layers: {conv1: fp8, conv2: fp16}"
std::string line_of(const Proposed& proposed) {
  std::vector<std::string> parts;
  for (const auto& [scope, format] : proposed) parts.push_back(scope + ": " + name_of(format));
  return "memory.dpr_layers: {" + comma_list(parts) + "}";
}

std::string json_of(const PrecisionProbe& probe, const Proposed& proposed, double most) {
  nlohmann::ordered_json json;
  json["batches"] = probe.batches, json["seconds"] = probe.seconds, json["most"] = most;
  json["maps"] = nlohmann::ordered_json::array();
  for (const ProbedMaps& each : probe.probed) {
    nlohmann::ordered_json one{
        {"scope", each.scope}, {"layer", each.layer}, {"maps", each.maps}, {"bytes", each.bytes}};
    for (const Dpr format : kDprFormats) {
      one["error"][name_of(format)] = each.error[size_t(format)];  // infinity: null
    }
    json["maps"].push_back(std::move(one));
  }
  json["dpr_layers"] = nlohmann::ordered_json::object();
  for (const auto& [scope, format] : proposed) json["dpr_layers"][scope] = name_of(format);
  return json.dump();
}

}  // namespace

int run_probe(const PlanArgs& args) {
  if (!(args.probe_error > 0) || !std::isfinite(args.probe_error)) {
    throw UsageError("--probe-error: " + short_number(args.probe_error) +
                     " is not a positive number; 0.01 is one percent");
  }
  const bool is_file = args.probe.extension() == ".safetensors";
  const SavedRun run = find_saved_run(is_file ? args.probe : args.probe / "last.safetensors");
  const auto task = make_task(args.config);
  const PrecisionProbe probe = probe_precision(*task, args.config, run.weights);
  const Proposed proposed = propose_formats(probe.probed, args.probe_error);
  if (args.json) return print(json_of(probe, proposed, args.probe_error) + "\n");

  std::string text = printed(
      "change of the gradients with one layer's maps rounded, the largest of %d batches; %.1f s\n",
      probe.batches, probe.seconds);
  for (const char* format : names(Dpr())) text += printed("%9s ", format);
  text += printed("%10s %5s  %s\n", "bytes", "maps", "layer");
  bool nameless = false;
  for (const ProbedMaps& each : probe.probed) {
    for (const double error : each.error) text += printed("%8.2g%% ", 100 * error);
    text += printed("%10s %5lld  %s\n", format_bytes(each.bytes).c_str(),
                    static_cast<long long>(each.maps), each.layer.c_str());
    nameless |= each.scope.empty();
  }
  text += printed("smallest formats below %g %%, each layer by itself:\n", 100 * args.probe_error);
  text += proposed.empty() ? "none\n" : line_of(proposed) + "\n";
  if (nameless) text += "layers without a scope of their own cannot be named in dpr_layers\n";
  return print(text);
}

}  // namespace pal
