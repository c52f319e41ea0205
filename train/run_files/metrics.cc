// Writing and mending metrics.jsonl.
#include "train/run_files/metrics.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/atomic_file.h"

namespace pal {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;            // keys stay in the order they are written here
constexpr size_t kRowsBlock = size_t{1} << 20;  // bytes of rows that are written at once

// The row without what differs between two compilations of one program.
std::string plan_identity(Json row) {
  row.erase("step");
  row.erase("compile_seconds");
  return row.dump();
}

// A whole number from 0 to `most`.
bool is_whole(const Json& json, int64_t most) {
  return json.is_number_unsigned() && json.get<uint64_t>() <= uint64_t(most);
}

// The end of a run that did all that it was to do.
bool ends_at(const Json& row, int64_t step) {
  if (row["event"] != "end" || row["step"] != step || !row.contains("reason")) return false;
  return row["reason"] != "interrupted" && row["reason"] != "nan";
}

// A map as write(DensityRow) puts it.
std::optional<MapDensity> density_in(const Json& map) {
  if (!map.is_object()) return {};
  const auto value = map.find("value"), density = map.find("density"), layer = map.find("layer");
  if (value == map.end() || !is_whole(*value, INT32_MAX)) return {};
  if (density == map.end() || !density->is_number()) return {};
  if (const double part = *density; !(part >= 0 && part <= 1)) return {};
  if (layer == map.end() || !layer->is_string()) return {};
  return MapDensity{.value = *value, .layer = *layer, .density = *density};
}

}  // namespace

std::optional<Json> row_in(const std::string& line) {
  constexpr int kDeepest = 4;
  Json row = Json::parse(
      line, [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; }, false);
  const bool is_row = row.is_object() && row.contains("event") && row["event"].is_string() &&
                      row.contains("step") && is_whole(row["step"], INT64_MAX);
  return is_row ? std::optional(std::move(row)) : std::nullopt;
}

std::map<std::string, std::map<int32_t, MapDensity>> largest_densities(std::istream& in) {
  std::map<std::string, std::map<int32_t, MapDensity>> largest;
  for (std::string line; std::getline(in, line);) {
    const std::optional<Json> row = row_in(line);
    if (!row || row->at("event") != "density") continue;
    const auto program = row->find("program"), maps = row->find("maps");
    if (program == row->end() || !program->is_string() || maps == row->end()) continue;
    for (const Json& each : *maps) {
      const std::optional<MapDensity> map = density_in(each);
      if (!map) continue;
      MapDensity& most = largest[*program].try_emplace(map->value, *map).first->second;
      most.density = std::max(most.density, map->density);
    }
  }
  return largest;
}

MetricsWriter MetricsWriter::create(const fs::path& file) {
  return MetricsWriter({file, AppendFile::Begin::anew});
}

RowsUntil rows_until(std::istream& in, int64_t step, const std::string& name,
                     const std::function<void(const std::string& line)>& keep) {
  RowsUntil kept;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    bool torn = in.eof();  // no line break at its end
    const std::optional<Json> found = row_in(line);
    if (!found) {
      if (torn || in.peek() == EOF) break;
      throw UsageError(name + ":" + std::to_string(number) +
                       ": not a row of metrics; mend the line or move the file away");
    }
    const Json& row = *found;
    kept.was_done |= !torn && ends_at(row, step);
    if (torn || row["event"] == "end" || row["step"].get<int64_t>() > step) continue;
    if (row["event"] == "plan") kept.plans.push_back(plan_identity(row));
    if (row["event"] == "valid" && row["step"] == step) kept.last_valid = line;
    keep(line + "\n");
  }
  return kept;
}

MetricsWriter MetricsWriter::resume(const fs::path& file, int64_t step) {
  std::ifstream in(file, std::ios::binary);
  const auto refuse = [&] { throw Error(kExitFailed, file.string() + ": cannot be read"); };
  if (!in && fs::exists(file)) refuse();
  AtomicFile out(file.string());
  std::string block;
  const auto write = [&](size_t least) {
    if (block.size() < least) return;
    out.write(block.data(), block.size());
    block.clear();
  };
  const RowsUntil kept = rows_until(in, step, file.string(), [&](const std::string& line) {
    block += line;
    write(kRowsBlock);
  });
  if (in.bad()) refuse();  // the rest would be lost
  in.close();
  write(1);
  out.commit();
  MetricsWriter writer({file, AppendFile::Begin::at_the_end});
  writer.plans_ = kept.plans, writer.was_done_ = kept.was_done;
  writer.last_valid_ = kept.last_valid;
  return writer;
}

void MetricsWriter::write(const PlanRow& r) {
  Json row = {{"event", "plan"},
              {"step", r.step},
              {"program", r.program},
              {"bucket", {r.source_length, r.target_length}},
              {"nodes", r.nodes},
              {"values", r.values},
              {"total_bytes", r.total_bytes},
              {"arena_bytes", r.arena_bytes},
              {"lower_bound_bytes", r.lower_bound_bytes},
              {"compile_seconds", r.compile_seconds}};
  std::string identity = plan_identity(row);
  if (std::find(plans_.begin(), plans_.end(), identity) != plans_.end()) return;
  append(row.dump());
  plans_.push_back(std::move(identity));
}

void MetricsWriter::write(const StepRow& r) {
  Json row = {{"event", "step"},
              {"step", r.step},
              {"epoch", r.epoch},
              {"loss", r.loss},
              {"lr", r.lr},
              {"grad_norm", r.grad_norm},
              {"samples_per_s", r.samples_per_s},
              {"tokens_per_s", r.tokens_per_s},
              {"step_ms", r.step_ms},
              {"arena_bytes", r.arena_bytes},
              {"peak_bytes", r.peak_bytes}};
  if (r.process_peak_bytes) row["process_peak_bytes"] = *r.process_peak_bytes;
  if (!r.traffic.empty()) row["traffic"] = r.traffic;
  append(row.dump());
}

void MetricsWriter::write(const DensityRow& r) {
  Json maps = Json::array();
  for (const MapDensity& map : r.maps) {
    Json one = {{"value", map.value},
                {"layer", map.layer},
                {"elements", map.elements},
                {"density", map.density}};
    if (map.capacity) one["form"] = map.form, one["capacity"] = *map.capacity;
    maps.push_back(std::move(one));
  }
  append(
      Json{{"event", "density"}, {"step", r.step}, {"program", r.program}, {"maps", maps}}.dump());
}

void MetricsWriter::write(const OverflowRow& r) {
  append(Json{{"event", "overflow"},
              {"step", r.step},
              {"micro_batch", r.micro_batch},
              {"program", r.program},
              {"layers", r.layers}}
             .dump());
}

void MetricsWriter::write(const ValidRow& r) {
  Json row = {{"event", "valid"}, {"step", r.step}, {"epoch", r.epoch}, {"loss", r.loss}};
  for (const auto& [name, value] : r.metrics) row[name] = value;
  const std::string line = row.dump();
  if (line != last_valid_) append(line);
}

void MetricsWriter::write(const EndRow& r) {
  Json row = {{"event", "end"},     {"step", r.step},       {"epoch", r.epoch},
              {"reason", r.reason}, {"seconds", r.seconds}, {"arena_bytes", r.arena_bytes}};
  if (r.process_peak_bytes) row["process_peak_bytes"] = *r.process_peak_bytes;
  append(row.dump());
}

}  // namespace pal
