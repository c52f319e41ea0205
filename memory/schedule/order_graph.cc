// Dependencies, touches, and the pairs that may be in place.
#include "memory/schedule/order_graph.h"

#include <algorithm>

#include "core/op.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

// The readers of a state value and of all views of it.
class StateReaders {
 public:
  explicit StateReaders(const Program& program) : p_(program), readers_(program) {}

  // Appends those that come before the writer in program order.
  void add(ValueId v, NodeId writer, std::vector<NodeId>& out) const {
    for (NodeId r : readers_[v]) {
      if (r >= writer) continue;
      out.push_back(r);
      for (const NodeWindow& w : windows_of(p_, p_.node(r))) {
        if (w.is_view && w.large == v) add(w.small, writer, out);
      }
    }
  }

 private:
  const Program& p_;
  const Readers readers_;
};

// An operand that its gathering node has to copy, because it lies elsewhere: where depends on the
// order.
bool gathers_by_copy(const Program& p, const Storages& storages, const Node& node) {
  for (const NodeWindow& w : windows_of(p, node)) {
    if (w.is_view || lies_in_place(storages, w)) continue;
    const Storage& s = storages[storages.of[w.small]];
    if (s.is_transient() && !s.output) return true;
  }
  return false;
}

bool is_forward(const Program& p, ValueId v) {
  const NodeId producer = p.value(v).producer;
  return producer != kNone && p.node(producer).phase == Phase::forward;
}

}  // namespace

ByNode<std::vector<NodeId>> dependencies_of(const Program& program) {
  const StateReaders readers(program);
  NodeId loss = kNone;
  for (auto& out : program.outputs) {
    if (out.name == "loss") loss = program.value(out.value).producer;
  }
  ByNode<std::vector<NodeId>> before(program.nodes.size());
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    auto& list = before[n];
    list = node.waits;
    for (ValueId v : present(node.in)) {
      const NodeId producer = program.value(v).producer;
      if (producer != kNone) list.push_back(producer);
    }
    if (node.op->writes_state) {
      if (loss != kNone && loss < n) list.push_back(loss);
      for (size_t i = 0; i < node.out.size(); ++i) {
        if (node.out[i] == kNone) continue;
        readers.add(node.in[size_t(written_operand(*node.op, int(i)))], n, list);
      }
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return before;
}

OrderGraph::OrderGraph(const Program& p, const ByNode<int64_t>& workspace_bytes,
                       const StorageOptions& options)
    : program(p),
      inplace(options.inplace),
      storages(assign_storages(
          p, {},
          {.inplace = false, .windows = options.windows, .maps_alone = options.maps_alone})) {
  const size_t node_count = p.nodes.size(), storage_count = storages.list.size();
  auto deps = dependencies_of(p);
  before = Lists(deps);
  ByNode<std::vector<NodeId>> dependents(node_count);
  for (NodeId n : deps.ids()) {
    for (NodeId d : deps[n]) dependents[d].push_back(n);
  }
  after = Lists(dependents);

  for (const Value& value : p.values) size.push_back(value.spec.bytes());
  for (const Storage& s : storages.list) {
    const bool on_device = s.space == Space::device;
    bytes.push_back(s.counted ? align_up(s.bytes) : 0);
    transient.push_back(s.is_transient() && on_device);
    kept.push_back(s.output);
    if (!s.is_transient() && on_device) base += footprint(s);
  }
  ByNode<std::vector<StorageId>> by_node(node_count);
  ByStorage<std::vector<NodeId>> by_storage(storage_count);
  for (NodeId n = 0; n < p.node_count(); ++n) {
    auto& list = by_node[n];
    for (auto* values : {&p.node(n).in, &p.node(n).out}) {
      for (ValueId v : present(*values)) {
        if (transient[storages.of[v]]) list.push_back(storages.of[v]);
      }
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    for (StorageId s : list) by_storage[s].push_back(n);
  }
  touches = Lists(by_node), touchers = Lists(by_storage);
  workspace.assign(node_count, 0);
  for (size_t n = 0; n < workspace_bytes.size(); ++n) {
    if (workspace_bytes[n] > 0 && !options.maps_alone) workspace[n] = align_up(workspace_bytes[n]);
  }

  ByNode<std::vector<int32_t>> by_take(node_count);
  for (NodeId n = 0; n < p.node_count(); ++n) {
    const Node& node = p.node(n);
    plain &= !options.windows || !gathers_by_copy(p, storages, node);
    if (!inplace || node.op->writes_state) continue;
    for (Share share : shares_of(*node.op, node.in.size())) {
      if (size_t(share.output) >= node.out.size()) continue;
      if (size_t(share.operand) >= node.in.size()) continue;
      const ValueId now = node.out[share.output], old = node.in[share.operand];
      if (now == kNone || old == kNone) continue;
      const StorageId a = storages.of[old], b = storages.of[now];
      if (a == b || !transient[a] || !transient[b] || kept[a] || !is_whole(old) ||
          size[old] != size[now]) {
        continue;
      }
      if (std::count_if(node.in.begin(), node.in.end(),
                        [&](ValueId v) { return v != kNone && storages.of[v] == a; }) != 1) {
        continue;
      }
      if (!options.over_feature_maps && is_forward(p, old) && !is_forward(p, now)) continue;
      plain &= is_whole(now);
      by_take[n].push_back(int32_t(take.size()));
      take.push_back({now, old});
    }
  }
  takes = Lists(by_take);
}

bool is_order(const OrderGraph& graph, const std::vector<NodeId>& order) {
  if (order.size() != size_t(graph.nodes())) return false;
  std::vector<char> placed(order.size(), 0);
  for (NodeId n : order) {
    if (n < 0 || n >= graph.nodes() || placed[n]) return false;
    for (NodeId d : graph.before[n]) {
      if (!placed[d]) return false;
    }
    placed[n] = 1;
  }
  return true;
}

}  // namespace pal
