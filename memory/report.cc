// Footprints at the peak.
#include "memory/report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "memory/storages.h"

namespace pal {
namespace {

// The value that a storage holds at a moment: of state and inputs the first, else the last one made
// by then; windows count only as long as there is nothing that fills the storage.
ValueId held_at(const Program& program, const Storage& storage, int64_t moment) {
  ValueId held = storage.values.front();
  if (storage.persistent || storage.input) return held;
  bool whole = false;
  for (ValueId v : storage.values) {
    const Value& value = program.value(v);
    const bool fills = value.spec.bytes() == storage.bytes;
    if (start_of(value.producer) > moment || (whole && !fills)) continue;
    held = v, whole = fills;
  }
  return held;
}

}  // namespace

Footprint footprint_of(const Program& program, const Storages& storages, const Plan& plan) {
  Footprint out;
  out.arena = plan.device().bytes;
  out.lower_bound = plan.device().lower_bound;
  out.host = plan.host().bytes;
  out.peak = peak_of(storages, lifetimes_of(program, storages));
  std::map<std::pair<std::string, std::string>, int64_t> layers;
  auto count = [&](ScopeId scope, Role role, int64_t bytes) {
    out.by_role[size_t(role)] += bytes;
    layers[{program.scopes[size_t(scope)], to_string(role)}] += bytes;
  };
  int64_t counted = 0;
  for (StorageId s : out.peak.alive) {
    const Storage& storage = storages[s];
    const int64_t bytes = footprint(storage);
    counted += bytes;
    if (storage.workspace_of != kNone) {
      count(program.node(storage.workspace_of).scope, Role::workspace, bytes);
      continue;
    }
    const Value& value = program.value(held_at(program, storage, out.peak.moment));
    count(value.scope, value.role, bytes);
  }
  if (int64_t rest = out.lower_bound - counted; rest > 0) count(0, Role::weight, rest);
  for (auto& [key, bytes] : layers) {
    if (bytes > 0) out.layers.push_back({key.first, key.second, bytes});
  }
  std::stable_sort(out.layers.begin(), out.layers.end(),
                   [](const LayerBytes& a, const LayerBytes& b) { return a.bytes > b.bytes; });
  return out;
}

std::string largest_at_peak(const Program& program, const Storages& storages, const Peak& peak,
                            size_t count) {
  std::string out;
  for (StorageId s : peak.alive) {
    if (storages[s].persistent || storages[s].input) continue;
    if (count-- == 0) break;
    out += (out.empty() ? "the largest alive at the peak: " : ", ") +
           name_of(program, storages, s) + " with " + format_bytes(footprint(storages[s]));
  }
  return out;
}

std::string format_bytes(int64_t bytes) {
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s",
                value, units[unit]);
  return text;
}

}  // namespace pal
