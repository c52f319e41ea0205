// Plans as JSON and as text.
#include "train/report/plan_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "memory/plan/report.h"
#include "train/config/wording.h"
#include "train/report/device_facts.h"
#include "train/report/encoding_report.h"
#include "train/report/traffic_report.h"

namespace pal {

namespace {

double samples_per_s(const StepTime& time, const PlanFacts& facts) {
  return time.step_ms > 0 ? 1e3 * double(facts.samples) / time.step_ms : 0;
}

nlohmann::ordered_json time_json(const std::optional<StepTime>& time, const PlanFacts& facts) {
  if (!time) return nullptr;
  nlohmann::ordered_json json{{"step_ms", time->step_ms},
                              {"overhead", time->overhead},
                              {"predicted", true},
                              {"profile", time->profile}};
  if (facts.samples > 0) json["samples_per_s"] = samples_per_s(*time, facts);
  return json;
}

nlohmann::ordered_json pair_json(const PairFacts& pair, const std::optional<StepTime>& time,
                                 const std::optional<int64_t>& capacity) {
  nlohmann::ordered_json json{{"micro_batches", pair.micro_batches}};
  json["fits"] = pair.why_not.empty() && (!capacity || pair.bytes <= *capacity);
  if (!pair.why_not.empty()) {
    json["why"] = pair.why_not;
    return json;
  }
  json["bytes"] = pair.bytes, json["larger_bytes"] = pair.larger_bytes;
  json["begins_after"] = pair.begins_after;
  json["time"] = {{"pair_ms", pair.ms},
                  {"one_by_one_ms", pair.one_by_one_ms},
                  {"least_ms", pair.least_ms},
                  {"predicted", true}};
  if (time) json["time"]["profile"] = time->profile;
  return json;
}

nlohmann::ordered_json devices_json(const DeviceFacts& f) {
  nlohmann::ordered_json json{{"ranks", f.ranks},
                              {"per_node", f.per_node},
                              {"link", f.link},
                              {"communication_ms", f.communication_ms},
                              {"exposed_ms", f.exposed_ms},
                              {"link_bytes", f.link_bytes},
                              {"bytes_per_rank", f.bytes_per_rank},
                              {"nccl_bytes", f.nccl_bytes}};
  json["joules"] = nullptr;
  if (f.joules) json["joules"] = *f.joules;
  json["speedup"] = f.speedup;
  json["predicted"] = true;
  return json;
}

nlohmann::ordered_json or_null(const std::optional<int64_t>& number) {
  if (number) return *number;
  return nullptr;
}

}  // namespace

std::string plan_json(const Compiled& c, std::pair<int64_t, int64_t> bucket,
                      const PlanFacts& facts) {
  const Footprint f = footprint_of(c.program, c.storages, c.plan);
  using nlohmann::ordered_json;
  ordered_json json;
  json["bucket"] = {bucket.first, bucket.second};
  json["program"] = {{"nodes", c.program.nodes.size()}, {"values", c.program.values.size()}};
  json["bytes"] = {{"total", f.arena},
                   {"arena", f.arena},
                   {"lower_bound", f.lower_bound},
                   {"weights", f.of(Role::weight)},
                   {"weight_gradients", f.of(Role::weight_gradient)},
                   {"optimizer_state", f.of(Role::optimizer_state)},
                   {"feature_maps", f.of(Role::feature_map) + f.of(Role::statistic)},
                   {"gradient_maps", f.of(Role::gradient_map)},
                   {"encoded", f.of(Role::encoded)},
                   {"workspace", f.of(Role::workspace)},
                   {"inputs", f.of(Role::input)},
                   {"host", f.host}};
  json["baselines"] = {{"ours", c.baselines.ours},
                       {"framework", c.baselines.framework},
                       {"framework_cudnn", c.baselines.cudnn}};
  if (c.encode.any()) json["encodings"] = encoding_json(c, facts);
  json["layers"] = ordered_json::array();
  for (const LayerBytes& layer : f.layers) {
    json["layers"].push_back(
        {{"scope", layer.scope}, {"type", layer.type}, {"bytes", layer.bytes}});
  }
  if (c.traffic) json["traffic"] = traffic_json(c);
  json["passes"] = ordered_json::array();
  for (const PassReport& pass : c.passes) {
    json["passes"].push_back({{"name", pass.name},
                              {"before_bytes", pass.before_bytes},
                              {"after_bytes", pass.after_bytes},
                              {"added_ms", pass.added_ms},
                              {"seconds", pass.seconds}});
  }
  json["time"] = time_json(c.time, facts);
  if (facts.batch_parts) {
    const BatchParts& parts = *facts.batch_parts;
    json["batch_parts"] = {{"parts", parts.parts},     {"examples", parts.examples},
                           {"nodes", parts.nodes},     {"runs", parts.runs},
                           {"most_bytes", parts.most}, {"most_other_bytes", parts.most_else}};
  }
  if (facts.pair) json["pair"] = pair_json(*facts.pair, c.time, facts.capacity);
  if (facts.devices) json["devices"] = devices_json(*facts.devices);
  json["compile_seconds"] = c.seconds;
  json["fits"] =
      !facts.capacity || std::max(f.arena, facts.dense_bytes.value_or(0)) <= *facts.capacity;
  json["max_batch"] = or_null(facts.max_batch);
  json["max_depth"] = or_null(facts.max_depth);
  json["max_length"] = or_null(facts.max_length);
  if (facts.answer) {
    json["answer"] = {{"step_ms", facts.answer->step_ms},
                      {"overhead", facts.answer->overhead},
                      {"from", facts.answer->from},
                      {"recording", facts.answer->recording}};
  }
  return json.dump();
}

std::string time_line(const Compiled& c, const PlanFacts& facts) {
  if (!c.time) return "";
  const StepTime& time = *c.time;
  const int digits = time.step_ms < 10 ? 2 : time.step_ms < 100 ? 1 : 0;
  std::string line =
      printed("time (predicted, %s): %.*f ms a step", time.profile.c_str(), digits, time.step_ms);
  double traded = 0;
  for (const PassReport& pass : c.passes) traded += pass.trades ? pass.added_ms : 0;
  for (const PassReport& pass : c.passes) {
    if (!pass.trades || pass.added_ms == 0 || traded == 0) continue;
    line +=
        printed(", %+.1f %% %s", 100 * time.overhead * pass.added_ms / traded, pass.name.c_str());
  }
  if (facts.samples > 0) line += printed(", %.4g samples/s", samples_per_s(time, facts));
  return line;
}

std::vector<std::string> plan_lines(const Compiled& c, const PlanFacts& facts) {
  const Footprint f = footprint_of(c.program, c.storages, c.plan);
  std::vector<std::string> lines{printed(
      "plan   %zu nodes, %s in all, lower bound %s, planned in %.2f s", c.program.nodes.size(),
      format_bytes(f.arena).c_str(), format_bytes(f.lower_bound).c_str(), c.seconds)};
  if (facts.batch_parts) lines.push_back("  parts of the batch: " + describe(*facts.batch_parts));
  for (const PassReport& pass : c.passes) lines.push_back("  " + to_string(pass));
  std::string roles;
  for (size_t r = 0; r < kRoles; ++r) {
    if (f.by_role[r] == 0) continue;
    roles += (roles.empty() ? "" : ", ") + std::string(to_string(Role(r))) + " " +
             format_bytes(f.by_role[r]);
  }
  lines.push_back("  at the peak: " + roles);
  for (const std::string& line : traffic_lines(c)) lines.push_back("  " + line);
  for (const std::string& line : encoding_lines(c, facts)) lines.push_back("  " + line);
  if (c.time) lines.push_back("  " + time_line(c, facts));
  if (facts.devices) lines.push_back("  " + line_of(*facts.devices));
  const int64_t needed = std::max(f.arena, facts.dense_bytes.value_or(0));
  if (facts.capacity && needed > *facts.capacity) {
    lines.push_back("  does not fit " + format_bytes(*facts.capacity) + ": " +
                    format_bytes(needed - *facts.capacity) + " over" +
                    (f.arena > *facts.capacity ? "" : " without sparse maps"));
  }
  return lines;
}

std::string plan_json(const Executable& step, std::pair<int64_t, int64_t> bucket) {
  return plan_json(step.compiled(), bucket);
}
std::vector<std::string> plan_lines(const Executable& step) { return plan_lines(step.compiled()); }

}  // namespace pal
