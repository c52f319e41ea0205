// Footprints at the peak.
#include "memory/plan/report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/text.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

// The values that fill the storage, in order of production; else its first one.
std::vector<ValueId> fillers(const Program& program, const Storages& storages, StorageId s) {
  std::vector<ValueId> out;
  const Storage& storage = storages[s];
  const std::span<const ValueId> values = storages.values_of(s);
  if (!storage.is_transient()) return {values.front()};
  for (ValueId v : values) {
    if (program.value(v).spec.bytes() == storage.bytes) out.push_back(v);
  }
  if (out.empty()) out.push_back(values.front());
  return out;
}

}  // namespace

std::vector<Held> held_values(const Program& program, const Storages& storages,
                              const ByStorage<Lifetime>& lifetimes) {
  std::vector<Held> out;
  for (StorageId s : storages.list.ids()) {
    const Lifetime life = lifetimes[s];
    if (life.begin >= life.end) continue;
    if (storages[s].workspace_of != kNone) {
      out.push_back({s, kNone, life.begin, life.end});
      continue;
    }
    const std::vector<ValueId> values = fillers(program, storages, s);
    int64_t begin = life.begin;
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t end =
          i + 1 < values.size()
              ? std::clamp(start_of(program.value(values[i + 1]).producer), begin, life.end)
              : life.end;
      if (begin < end) out.push_back({s, values[i], begin, end});
      begin = end;
    }
  }
  return out;
}

Role role_of(const Program& program, const Held& held) {
  if (held.value == kNone) return Role::workspace;
  const Role role = program.value(held.value).role;
  return role == Role::gate ? Role::gradient_map : role;  // a few bytes, made of gradients
}

Timeline timeline_of(const Program& program, const Storages& storages,
                     const std::vector<Held>& held, size_t columns) {
  const size_t moments = 2 * program.nodes.size();
  std::vector<std::array<int64_t, kRoles>> change(moments + 1);
  for (const Held& h : held) {
    if (storages[h.storage].space != Space::device) continue;
    const int64_t bytes = footprint(storages[h.storage]);
    const size_t role = size_t(role_of(program, h));
    change[h.begin][role] += bytes;
    change[h.end][role] -= bytes;
  }
  Timeline out{.moments = int64_t(moments), .columns = {}};
  columns = std::min(columns, moments);
  std::array<int64_t, kRoles> now{};
  for (size_t c = 0, m = 0; c < columns; ++c) {
    Timeline::Column column{.bytes = -1};
    for (const size_t end = (c + 1) * moments / columns; m < end; ++m) {
      int64_t bytes = 0;
      for (size_t r = 0; r < kRoles; ++r) bytes += now[r] += change[m][r];
      if (bytes > column.bytes) column = {int64_t(m), bytes, now};
    }
    out.columns.push_back(column);
  }
  return out;
}

Footprint footprint_of(const Program& program, const Storages& storages, const Plan& plan) {
  Footprint out;
  out.arena = plan.device().bytes;
  out.lower_bound = plan.device().lower_bound;
  out.host = plan.host().bytes;
  const ByStorage<Lifetime> lifetimes = lifetimes_of(program, storages);
  out.peak = peak_of(storages, lifetimes);
  std::map<std::pair<std::string, std::string>, int64_t> layers;
  auto count = [&](ScopeId scope, Role role, int64_t bytes) {
    out.by_role[size_t(role)] += bytes;
    layers[{program.scopes[scope], to_string(role)}] += bytes;
  };
  int64_t counted = 0;
  for (const Held& held : held_values(program, storages, lifetimes)) {
    const Storage& storage = storages[held.storage];
    if (storage.space != Space::device || held.begin > out.peak.moment ||
        out.peak.moment >= held.end) {
      continue;
    }
    const int64_t bytes = footprint(storage);
    counted += bytes;
    const ScopeId scope = held.value == kNone ? program.node(storage.workspace_of).scope
                                              : program.value(held.value).scope;
    count(scope, role_of(program, held), bytes);
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
    if (!storages[s].is_transient()) continue;
    if (count-- == 0) break;
    out += (out.empty() ? "the largest alive at the peak: " : ", ") +
           name_of(program, storages, s) + " with " + format_bytes(footprint(storages[s]));
  }
  return out;
}

}  // namespace pal
