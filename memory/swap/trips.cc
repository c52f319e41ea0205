// Units from the storages without in-place; copies and views by a walk over the nodes.
#include "memory/swap/trips.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/op.h"
#include "core/rewriter.h"
#include "memory/passes/forms.h"
#include "memory/storages/lifetimes.h"
#include "ops/tensors/transfers.h"

namespace pal {
namespace {

// So many bytes, or this part of the peak.
constexpr int64_t kLeastCopied = 64 << 10, kLeastPart = 1000;

// The value that v is a view of, where v lies in its bytes; kNone: v is no view.
ByValue<ValueId> views_of(const Program& p, const Storages& storages) {
  ByValue<ValueId> base(p.values.size(), kNone);
  for (const Node& node : p.nodes) {
    for (const NodeWindow& w : windows_of(p, node)) {
      if (w.is_view && lies_in_place(storages, w)) base[w.small] = w.large;
    }
  }
  return base;
}

}  // namespace

std::vector<SwapUnit> swap_units(const Program& p, int64_t least) {
  const Storages storages = assign_storages(p, {}, {.inplace = false});
  const ByValue<ValueId> base = views_of(p, storages);
  const ByStorage<std::vector<NodeId>> touches = touches_of(p, storages);
  const ByStorage<std::vector<NodeId>> writers = writers_of(p, storages);
  const Readers readers(p);
  std::vector<SwapUnit> units;
  for (StorageId s : storages.list.ids()) {
    const Storage& storage = storages[s];
    if (!storage.is_transient() || storage.output || storage.space != Space::device ||
        storage.workspace_of != kNone || storage.bytes < least || writers[s].empty()) {
      continue;
    }
    SwapUnit unit{.touches = touches[s], .bytes = footprint(storage), .made = writers[s].back()};
    for (ValueId v : storages.values_of(s)) {  // a gathering of what lies in place writes nothing
      if (base[v] == kNone) unit.made = std::max(unit.made, p.value(v).producer);
    }
    NodeId before = kNone;
    for (NodeId n : touches[s]) {
      if (before != kNone && before >= unit.made && n > before + 1) {
        unit.gaps.push_back({before, n});
      }
      before = n;
    }
    if (unit.gaps.empty()) continue;
    std::vector<ValueId> carriers;  // of what is read after the first gap
    for (ValueId v : storages.values_of(s)) {
      const auto nodes = readers[v];
      unit.is_map |= is_map(p, v) && p.value(v).role == Role::feature_map;
      if (nodes.empty() || nodes.back() < unit.gaps.front().before) continue;
      ValueId carrier = v;
      while (base[carrier] != kNone) carrier = base[carrier];
      carriers.push_back(carrier);
    }
    std::sort(carriers.begin(), carriers.end());
    carriers.erase(std::unique(carriers.begin(), carriers.end()), carriers.end());
    unit.copied = std::move(carriers);
    if (!unit.copied.empty()) units.push_back(std::move(unit));
  }
  return units;
}

int64_t least_worth_copying(int64_t peak) { return std::min(kLeastCopied, peak / kLeastPart); }

double link_bytes_per_ms(const DeviceProfile& device) {
  return 1e-3 * device.link * device.link_efficiency;
}

double copy_ms(const Program& p, const SwapUnit& unit, const DeviceProfile& device) {
  double ms = 0;
  for (ValueId v : unit.copied) {
    const auto bytes = double(p.value(v).spec.bytes());
    ms += time_ms({.bytes = bytes, .host_bytes = bytes}, device);
  }
  return ms;
}

std::optional<Gap> stashed_gap(const Program& p, const SwapUnit& unit) {
  for (const Gap& gap : unit.gaps) {
    if (!is_later(p.node(gap.after)) && is_later(p.node(gap.before))) return gap;
  }
  return {};
}

namespace {

// Names for values at the node that is written: those of bytes that came back, and of views that
// were made again.
class Renamed {
 public:
  Renamed(const Program& p, Rewriter& out)
      : p_(p), out_(out), base_(views_of(p, assign_storages(p, {}, {.inplace = false}))) {}

  void came_back(ValueId v, ValueId now) { now_[v] = now; }

  // The name that a node reads now. A view of bytes that came back since is made again.
  ValueId name(ValueId v) {
    if (now_.empty()) return v;
    if (base_[v] == kNone) {
      const auto now = now_.find(v);
      return now == now_.end() ? v : now->second;
    }
    const ValueId base = name(base_[v]);
    const auto view = views_.find(v);
    if (view != views_.end() && view->second.base == base) return view->second.name;
    if (base == base_[v]) return v;
    Node again = p_.node(p_.value(v).producer);
    again.phase = Phase::recompute;
    for (ValueId& in : again.in) in = in == base_[v] ? base : in;
    const Value value = p_.value(v);
    const ValueId made = out_.add(value);
    for (ValueId& output : again.out) output = output == v ? made : ValueId(kNone);
    out_.insert(std::move(again));
    views_[v] = {made, base};
    return made;
  }
  // A node was written, with the names of its operands.
  void was_written(const Node& node) {
    for (ValueId v : present(node.out)) {
      if (base_[v] != kNone) views_[v] = {v, name(base_[v])};
    }
  }

 private:
  struct View {
    ValueId name, base;
  };
  const Program& p_;
  Rewriter& out_;
  const ByValue<ValueId> base_;
  std::map<ValueId, ValueId> now_;
  std::map<ValueId, View> views_;
};

}  // namespace

Program with_trips(const Program& p, const std::vector<SwapUnit>& units, std::vector<Trip> trips) {
  std::stable_sort(trips.begin(), trips.end(),
                   [](const Trip& a, const Trip& b) { return a.leave < b.leave; });
  ByNode<std::vector<const Trip*>> leave(p.nodes.size()), come(p.nodes.size());
  std::vector<char> has_left(units.size(), 0);
  for (const Trip& trip : trips) {
    if (!has_left[trip.unit]) leave[trip.leave].push_back(&trip), has_left[trip.unit] = 1;
    come[trip.come].push_back(&trip);
  }
  // Of what comes back at once, what is read first.
  const auto reader = [&](const Trip& trip) {
    const std::vector<NodeId>& touches = units[trip.unit].touches;
    return *std::lower_bound(touches.begin(), touches.end(), trip.come);
  };
  for (std::vector<const Trip*>& at_once : come) {
    std::stable_sort(at_once.begin(), at_once.end(),
                     [&](const Trip* a, const Trip* b) { return reader(*a) < reader(*b); });
  }
  Rewriter out(p);
  Renamed renamed(p, out);
  ByValue<ValueId> host(p.values.size(), kNone);
  const auto come_back = [&](NodeId n, bool left_just_now) {
    for (const Trip* trip : come[n]) {
      if ((trip->leave + 1 == n) != left_just_now) continue;
      for (ValueId v : units[trip->unit].copied) {
        Value value = p.value(v);
        const ValueId back = out.add(value);
        out.insert({.op = &copy_in_op,
                    .in = {host[v]},
                    .out = {back},
                    .phase = Phase::reload,
                    .scope = value.scope,
                    .step = value.step});
        renamed.came_back(v, back);
      }
    }
  };
  for (NodeId n : p.nodes.ids()) {
    Node node = p.node(n);
    for (ValueId& v : node.in) {
      if (v != kNone) v = renamed.name(v);
    }
    out.replace(n, node);
    renamed.was_written(node);
    // What comes back for the next node may be there before what leaves has left: the queues have
    // it so, and the bytes are to be the same.
    const bool is_last = n + 1 == p.node_count();
    if (!is_last) come_back(NodeId(n + 1), false);
    for (const Trip* trip : leave[n]) {
      for (ValueId v : units[trip->unit].copied) {
        Value value = p.value(v);
        value.space = Space::host, value.role = Role::host_copy;
        host[v] = out.add(value);
        Node copy{.op = &copy_out_op,
                  .in = {v},
                  .out = {host[v]},
                  .phase = Phase::offload,
                  .scope = value.scope,
                  .step = value.step};
        if (trip->not_before != kNone && trip->not_before > 0) {
          copy.waits = {NodeId(trip->not_before - 1)};
        }
        out.insert(std::move(copy));
      }
    }
    if (!is_last) come_back(NodeId(n + 1), true);
  }
  return out.finish();
}

}  // namespace pal
