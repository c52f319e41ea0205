// Walks over the step's nodes, values and storages.
#include "memory/front/sketch_table.h"

#include <algorithm>
#include <cmath>

#include "memory/passes/forms.h"
#include "memory/storages/lifetimes.h"
#include "memory/swap/trips.h"

namespace pal {
namespace {

ByNode<int32_t> positions_in(const std::vector<NodeId>& order) {
  ByNode<int32_t> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = int32_t(i);
  return position;
}

ByNode<int64_t> ticks_of(const ByNode<double>& node_ms) {
  ByNode<int64_t> ticks;
  for (const double ms : node_ms) ticks.push_back(sketch_ticks(ms));
  return ticks;
}

}  // namespace

int64_t sketch_ticks(double ms) { return std::llround(ms * kSketchTicks); }

SketchTable::SketchTable(const StepView& seen, std::vector<NodeId> runs_in,
                         const DeviceProfile& device, const SketchPasses& passes)
    : view(seen), p(seen.program), order(std::move(runs_in)), position(positions_in(order)) {
  const StepTimes times = step_times(p, device, passes.fuse);
  ticks = ticks_of(times.alone), in_step = ticks_of(times.in_step);
  const Storages storages = assign_storages(p, {}, {.inplace = false});
  list_storages(storages);
  list_nodes(storages, passes.inplace);
  list_gradients();
  bit_bytes.assign(bytes.size(), 0), bit_ticks.assign(bytes.size(), 0);
  if (passes.bits) list_bits(device);
  copy_ticks.assign(bytes.size(), 0);
  if (device.link > 0) list_copies(storages, device);
  list_fixed();
  list_fused(fused_clones(view, times, device, passes.fuse));
}

// What nodes read and make of the maps that may be made again, and which outputs may take the bytes
// of which operands.
void SketchTable::list_nodes(const Storages& storages, bool inplace) {
  const size_t each = p.nodes.size(), count = storages.list.size();
  ByNode<std::vector<ValueId>> reads(each), makes(each);
  ByValue<std::vector<NodeId>> of_map(p.values.size());
  ByStorage<std::vector<NodeId>> of_storage(count), in_pair(count);
  ByStorage<std::vector<Made>> makers(count);
  ByNode<std::vector<Pair>> all_pairs(each);
  shares.assign(each, 0);
  const auto whole = [&](ValueId v) {
    return p.value(v).spec.bytes() == storages[storages.of[v]].bytes;
  };
  for (NodeId n : p.nodes.ids()) {
    const Node& node = p.node(n);
    is_forward.push_back(node.phase == Phase::forward);
    if (is_forward[n]) {
      for (ValueId v : present(node.in)) {
        if (view.pinned[v]) continue;
        reads[n].push_back(v), of_map[v].push_back(n);
        of_storage[view.storage[v]].push_back(n);
      }
      for (ValueId v : present(node.out)) {
        if (view.pinned[v]) continue;
        makes[n].push_back(v), makers[view.storage[v]].push_back({n, v});
      }
    }
    if (!inplace || node.op->writes_state || node.op->shares.empty()) continue;
    for (const Share share : shares_of(*node.op, node.in.size())) {
      if (size_t(share.output) >= node.out.size() || size_t(share.operand) >= node.in.size()) {
        continue;
      }
      const ValueId now = node.out[share.output], old = node.in[share.operand];
      if (now == kNone || old == kNone || !whole(now) || !whole(old)) continue;
      const StorageId to = storages.of[now], from = storages.of[old];
      if (to == from || storages[to].bytes != storages[from].bytes) continue;
      if (!storages[from].is_transient() || storages[from].output) continue;
      if (!storages[to].is_transient()) continue;
      all_pairs[n].push_back({to, from});
      for (const StorageId s : {to, from}) {
        if (!is_map[s]) continue;
        shares[n] = 1, in_pair[s].push_back(n);
      }
    }
  }
  in = Lists(reads), out = Lists(makes), readers = Lists(of_map), read_by = Lists(of_storage);
  made_by = Lists(makers), pairs = Lists(all_pairs), shared_by = Lists(in_pair);
}

void SketchTable::list_storages(const Storages& storages) {
  const size_t count = storages.list.size();
  const auto last = int32_t(order.size()) - 1;
  nodes.assign(count, {}), made.assign(count, -1);
  bytes.assign(count, 0), is_open.assign(count, 0), is_map.assign(count, 0);
  ByStorage<char> closed(count, 0);
  for (NodeId n : p.nodes.ids()) {
    const Node& node = p.node(n);
    const Place here = place_of_node(position[n]);
    const auto touch = [&](ValueId v) {
      const StorageId s = storages.of[v];
      if (s == kNone) return;
      nodes[s].begin = std::min(nodes[s].begin, here);
      // What reads a map after the forward phase depends on the choice.
      if (view.pinned[v] || node.phase == Phase::forward) {
        nodes[s].end = std::max(nodes[s].end, here);
      }
    };
    for (ValueId v : present(node.in)) touch(v);
    for (ValueId v : present(node.out)) {
      touch(v);
      if (storages.of[v] == kNone || node.phase != Phase::forward) continue;
      made[storages.of[v]] = std::max(made[storages.of[v]], position[n]);
    }
  }
  for (ValueId v : p.values.ids()) {
    const StorageId s = storages.of[v];
    if (s == kNone) continue;
    closed[s] |= view.pinned[v] || !view.clonable[p.value(v).producer];
    is_map[s] |= !view.pinned[v];
  }
  for (StorageId s : storages.list.ids()) {
    const Storage& storage = storages[s];
    if (storage.space != Space::device) continue;
    if (!storage.is_transient()) {
      constant_ += footprint(storage);
      continue;
    }
    bytes[s] = footprint(storage);
    if (storage.output) nodes[s].end = place_of_node(last);
    if (nodes[s].is_empty()) bytes[s] = 0;
    if (!is_map[s] || closed[s]) continue;
    is_open[s] = 1;
    open.push_back(s);
  }
}

void SketchTable::list_gradients() {
  gradients.assign(bytes.size(), {});
  for (ValueId v : p.values.ids()) {
    if (view.stays(v) || view.first_use[v] == kNone) continue;
    PlaceSpan& span = gradients[view.storage[v]];
    span.touch(place_of_node(position[view.first_use[v]]));
    span.touch(place_of_node(position[view.last_use[v]]));
  }
}

// As swapping would make the copies; of what clones alone read later, one of all.
void SketchTable::list_copies(const Storages& storages, const DeviceProfile& device) {
  for (const StorageId s : open) {
    const auto whole = double(bytes[s]);
    copy_ticks[s] = sketch_ticks(time_ms({.bytes = whole, .host_bytes = whole}, device));
  }
  for (const SwapUnit& unit : swap_units(p, 1)) {
    const StorageId s = storages.of[unit.copied.front()];
    if (!is_open[s] || !stashed_gap(p, unit)) continue;
    copy_ticks[s] = sketch_ticks(copy_ms(p, unit, device));
  }
}

void SketchTable::list_bits(const DeviceProfile& device) {
  ByStorage<int32_t> members(bytes.size(), 0);
  for (ValueId v : p.values.ids()) {
    if (view.storage[v] != kNone) ++members[view.storage[v]];
  }
  for (ValueId v : p.values.ids()) {
    if (view.stays(v) || view.first_use[v] == kNone) continue;
    const StorageId s = view.storage[v];
    const TensorSpec& spec = p.value(v).spec;
    if (members[s] != 1 || spec.dtype == DType::bit || spec.layout ||
        pal::bit_bytes(spec) >= spec.bytes() || !asked_of(p, view.readers, v).bits_will_do()) {
      continue;
    }
    const int64_t as_bits = pal::bit_bytes(spec);
    bit_bytes[s] = align_up(as_bits);
    bit_ticks[s] = sketch_ticks(time_ms({.bytes = double(spec.bytes() + as_bits)}, device));
  }
}

// Alive whatever is chosen, and what of it lies in the bytes of operands that die.
void SketchTable::list_fixed() {
  std::vector<int64_t> now(order.size() + 1, 0), between(order.size() + 1, 0);
  for (StorageId s : bytes.ids()) {
    if (bytes[s] == 0 || is_map[s]) continue;
    const auto begin = size_t(position_of(nodes[s].begin)), end = size_t(position_of(nodes[s].end));
    now[begin] += bytes[s], now[end + 1] -= bytes[s];
    if (begin == end) continue;
    between[begin + 1] += bytes[s], between[end + 1] -= bytes[s];
  }
  int64_t at = constant_, before_it = constant_;
  for (size_t i = 0; i < order.size(); ++i) {
    during.push_back(at += now[i]), before.push_back(before_it += between[i]);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const NodeId n = order[i];
    if (shares[n]) continue;  // depends on the choice
    StorageId taken = kNone, given = kNone;
    const Place here = place_of_node(int32_t(i));
    for (const Pair& pair : pairs[n]) {
      if (pair.operand == taken || pair.output == given) continue;
      const PlaceSpan &from = nodes[pair.operand], &to = nodes[pair.output];
      if (from.end != here || to.begin != here || from.begin == here) continue;
      taken = pair.operand, given = pair.output;
      during[i] -= bytes[taken];
    }
  }
}

void SketchTable::list_fused(const std::vector<FusedClones>& found) {
  ByNode<std::vector<OfFused>> parts(p.nodes.size());
  for (const FusedClones& one : found) {
    const auto among = [](const std::vector<NodeId>& list, NodeId n) {
      return std::find(list.begin(), list.end(), n) != list.end();
    };
    Fused whole{.run = one.nodes, .saved = sketch_ticks(one.saved_ms)};
    bool possible = true;
    for (ValueId v : one.interior) {
      whole.inside.push_back(view.storage[v]);
      for (const NodeId n : view.readers[v]) {
        if (among(is_forward[n] ? one.nodes : one.gradients, n)) continue;
        possible &= is_forward[n] != 0;
        if (!among(whole.stay, n)) whole.stay.push_back(n);
      }
    }
    if (!possible) continue;
    const auto number = int32_t(fused.size());
    for (const NodeId n : whole.run) parts[n].push_back({number, true});
    for (const NodeId n : whole.stay) parts[n].push_back({number, false});
    fused.push_back(std::move(whole));
  }
  fused_of = Lists(parts);
}

}  // namespace pal
