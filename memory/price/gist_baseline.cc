// A program as CNTK or Gist would run it, then its storages, their lifetimes and uses, and the
// three sums.
#include "memory/price/gist_baseline.h"

#include <algorithm>
#include <numeric>

#include "core/op.h"
#include "memory/place/buffers/load.h"
#include "memory/price/baselines.h"
#include "memory/storages/lifetimes.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

// The values that a node of this phase makes stand in for another in the backward phase.
bool restores(Phase phase) { return phase == Phase::decode || phase == Phase::reload; }
// The node belongs to the first use of what it reads (figure 2).
bool is_first_use(Phase phase) { return phase == Phase::forward || phase == Phase::encode; }

// The value itself, or its copy that was decoded last before node n.
ValueId copy_for(const Program& p, const Readers& readers, ValueId v, NodeId n) {
  ValueId copy = v;
  for (NodeId e : readers[v]) {
    if (p.node(e).phase != Phase::encode) continue;
    for (ValueId encoded : present(p.node(e).out)) {
      for (NodeId d : readers[encoded]) {
        const Node& decode = p.node(d);
        const bool dense = restores(decode.phase) && d < n && decode.out[0] != kNone &&
                           p.value(decode.out[0]).spec == p.value(v).spec;
        if (dense) copy = decode.out[0];
      }
    }
  }
  return copy;
}

// Gradients read operand 0 and output 0 of such a node where they read its other outputs, which
// are not made.
Program with_both_kept(Program p) {
  const Readers readers(p);
  for (NodeId n : p.nodes.ids()) {
    if (p.node(n).phase != Phase::forward || !habit_of(*p.node(n).op).cntk_keeps_both) continue;
    const ValueId x = p.node(n).in[0], y = p.node(n).out[0];
    for (size_t k = 1; k < p.node(n).out.size(); ++k) {
      const ValueId other = p.node(n).out[k];
      if (other == kNone) continue;
      for (NodeId r : readers[other]) {
        std::vector<ValueId>& in = p.nodes[r].in;
        std::replace(in.begin(), in.end(), other, ValueId(kNone));
        in.push_back(copy_for(p, readers, x, r));
        if (y != kNone) in.push_back(copy_for(p, readers, y, r));
      }
      p.nodes[n].out[k] = kNone;
    }
  }
  p.relink();
  return p;
}

// Readers of a decoded copy read what it is decoded from.
Program without_copies(Program p) {
  const Readers readers(p);
  for (Node& node : p.nodes) {
    if (!restores(node.phase)) continue;
    for (ValueId copy : present(node.out)) {
      for (NodeId r : readers[copy]) {
        std::vector<ValueId>& in = p.nodes[r].in;
        std::replace(in.begin(), in.end(), copy, ValueId(kNone));
        for (ValueId encoded : present(node.in)) in.push_back(encoded);
      }
    }
    std::fill(node.out.begin(), node.out.end(), ValueId(kNone));
  }
  p.relink();
  return p;
}

MapUse use_of(const Program& p, const Readers& readers, ValueId v) {
  const Phase phase = p.node(p.value(v).producer).phase;
  if (p.value(v).role == Role::encoded) return MapUse::encoded;
  if (restores(phase)) return MapUse::decoded;
  if (phase == Phase::recompute) return MapUse::immediate;
  if (!is_first_use(phase)) return MapUse::gradient;
  const auto list = readers[v];
  const bool stashed = std::any_of(list.begin(), list.end(),
                                   [&](NodeId r) { return !is_first_use(p.node(r).phase); });
  return stashed ? MapUse::stashed : MapUse::immediate;
}

std::vector<GistMap> maps_of(const Program& p, const StorageOptions& options) {
  const Storages storages = assign_storages(p, {}, options);
  const ByStorage<Lifetime> lifetimes = lifetimes_of(p, storages);
  const ByStorage<std::vector<NodeId>> touches = touches_of(p, storages);
  const Readers readers(p);
  std::vector<GistMap> maps;
  for (StorageId s : storages.list.ids()) {
    const Storage& storage = storages[s];
    if (!storage.is_transient() || storage.workspace_of != kNone) continue;
    if (lifetimes[s].begin >= lifetimes[s].end) continue;
    GistMap map{kNone, MapUse::immediate, {lifetimes[s].begin, lifetimes[s].end, storage.bytes}};
    for (ValueId v : storages.values_of(s)) {  // a stash of them decides
      if (!is_map(p, v)) continue;
      const MapUse use = use_of(p, readers, v);
      if (map.value == kNone || is_stash(use) || !is_stash(map.use)) map.value = v, map.use = use;
    }
    if (map.value == kNone) continue;
    for (NodeId n : touches[s]) {
      if (is_first_use(p.node(n).phase)) {
        map.first_use = n;
      } else if (map.second_use == kNone) {
        map.second_use = n;
      }
    }
    maps.push_back(map);
  }
  return maps;
}

int64_t& at(BytesByUse& bytes, MapUse use) { return bytes[size_t(use)]; }

// Adds the groups of those maps that `wanted` takes.
template <class F> int64_t add_groups(const std::vector<GistMap>& maps, F wanted, BytesByUse& use) {
  std::vector<Buffer> buffers;
  for (const GistMap& map : maps) buffers.push_back(wanted(map.use) ? map.buffer : Buffer{});
  const SharingGroups groups = sharing_groups(buffers);
  for (size_t b : groups.largest) at(use, maps[b].use) += buffers[b].size;
  return groups.bytes;
}

GistFootprint summed(std::vector<GistMap> maps) {
  GistFootprint out;
  out.maps = std::move(maps);
  out.cntk = add_groups(
      out.maps, [](MapUse) { return true; }, out.cntk_by_use);
  out.investigation = add_groups(
      out.maps, [](MapUse use) { return !is_stash(use); }, out.investigation_by_use);
  std::vector<Buffer> buffers;
  for (const GistMap& map : out.maps) {
    buffers.push_back(map.buffer);
    if (!is_stash(map.use)) continue;
    out.investigation += map.buffer.size;
    at(out.investigation_by_use, map.use) += map.buffer.size;
  }
  out.dynamic = lower_bound_of(buffers);
  return out;
}

bool is_float(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16;
}

// A part of a storage.
struct TouchedBytes {
  StorageId storage;
  int64_t begin, end;
};

// Bytes that several parts have in common count once.
int64_t bytes_of_union(std::vector<TouchedBytes> parts) {
  std::sort(parts.begin(), parts.end(), [](const TouchedBytes& a, const TouchedBytes& b) {
    return a.storage != b.storage ? a.storage < b.storage : a.begin < b.begin;
  });
  int64_t bytes = 0, end = 0;  // end: of what was counted of the storage
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == 0 || parts[i].storage != parts[i - 1].storage) end = 0;
    bytes += std::max<int64_t>(0, parts[i].end - std::max(end, parts[i].begin));
    end = std::max(end, parts[i].end);
  }
  return bytes;
}

}  // namespace

const char* to_string(MapUse use) {
  static constexpr const char* names[] = {"stashed", "immediate", "gradient", "encoded", "decoded"};
  return names[size_t(use)];
}

int64_t GistFootprint::bytes_of(MapUse use) const {
  int64_t sum = 0;
  for (const GistMap& map : maps) sum += map.use == use ? map.buffer.size : 0;
  return sum;
}

SharingGroups sharing_groups(std::span<const Buffer> buffers) {
  SharingGroups out;
  out.of.assign(buffers.size(), -1);
  const std::vector<int32_t> given = not_empty(buffers);
  std::vector<size_t> order(given.begin(), given.end());
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Buffer &x = buffers[a], &y = buffers[b];
    return x.size != y.size ? x.size > y.size : x.lower < y.lower;
  });
  std::vector<std::vector<size_t>> members;
  for (size_t b : order) {
    auto meets = [&](size_t other) {
      return buffers[other].lower < buffers[b].upper && buffers[b].lower < buffers[other].upper;
    };
    size_t after = members.size();  // the group; later ones are no larger than earlier ones
    while (after > 0 && std::any_of(members[after - 1].begin(), members[after - 1].end(), meets)) {
      --after;
    }
    if (after == 0) {
      members.emplace_back();
      out.largest.push_back(b);
      out.bytes += buffers[b].size;
      after = members.size();
    }
    members[after - 1].push_back(b);
    out.of[b] = int32_t(after - 1);
  }
  return out;
}

GistFootprint gist_footprint(const Program& program, const GistRules& rules) {
  Program p = rules.pool_map ? program : with_both_kept(program);
  if (!rules.decoded_copies) p = without_copies(std::move(p));
  return summed(maps_of(p, {.inplace = rules.inplace, .over_feature_maps = false}));
}

GistFootprint with_encoded(const GistFootprint& footprint, std::span<const EncodedMap> encoded) {
  std::vector<GistMap> maps;
  for (const GistMap& map : footprint.maps) {
    const auto form = std::find_if(encoded.begin(), encoded.end(),
                                   [&](const EncodedMap& e) { return e.value == map.value; });
    if (form == encoded.end() || map.use != MapUse::stashed) {
      maps.push_back(map);
      continue;
    }
    const int64_t from = start_of(map.first_use), again = start_of(map.second_use);
    GistMap dense = map, code = map, copy = map;
    dense.use = MapUse::immediate, dense.buffer.upper = done_of(map.first_use);
    code.use = MapUse::encoded, code.buffer.lower = from, code.buffer.size = form->bytes;
    if (map.buffer.lower != from) maps.push_back(dense);
    if (form->is_decoded) {
      copy.use = MapUse::decoded, copy.buffer.lower = again;
      code.buffer.upper = done_of(map.second_use);
      maps.push_back(copy);
    }
    maps.push_back(code);
  }
  return summed(std::move(maps));
}

GistFloor gist_floor(const Program& program) {
  const Storages storages = assign_storages(program);
  GistFloor floor;
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    std::vector<TouchedBytes> touched;
    auto touch = [&](ValueId v) {
      if (v == kNone || !is_map(program, v) || !is_float(program.value(v).spec.dtype)) return;
      const int64_t begin = storages.offset[v];
      touched.push_back({storages.of[v], begin, begin + program.value(v).spec.bytes()});
    };
    for (size_t k = 0; k < node.in.size(); ++k) {
      if (reads_of(*node.op, int(k), node.attrs).takes_values()) touch(node.in[k]);
    }
    for (ValueId v : node.out) touch(v);
    const int64_t bytes = bytes_of_union(std::move(touched));
    if (bytes > floor.bytes) floor = {bytes, n};
  }
  return floor;
}

BesideMaps beside_maps(const Program& program, const ByNode<int64_t>& workspace_bytes) {
  BesideMaps out;
  for (const StateSlot& slot : program.state) {
    const int64_t bytes = program.value(slot.start).spec.bytes();
    if (slot.role == Role::weight) out.weights += bytes;
    if (slot.role == Role::optimizer_state) out.optimizer_state += bytes;
  }
  const Storages storages = assign_storages(program);
  for (StorageId s : storages.list.ids()) {
    const auto values = storages.values_of(s);
    const bool gradient = std::any_of(values.begin(), values.end(), [&](ValueId v) {
      return program.value(v).role == Role::weight_gradient;
    });
    if (gradient && storages[s].is_transient()) out.weight_gradients += storages[s].bytes;
  }
  for (int64_t bytes : workspace_bytes) out.workspace = std::max(out.workspace, bytes);
  return out;
}

}  // namespace pal
