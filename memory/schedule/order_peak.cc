// In-place decisions for an order, and a sweep over the lifetimes that follow.
#include "memory/schedule/order_peak.h"

#include <algorithm>

namespace pal {

OrderPeak::OrderPeak(const OrderGraph& graph) : graph_(graph) {
  const Program& p = graph.program;
  ByNode<std::vector<StorageId>> writes(p.nodes.size());
  is_taker_.assign(p.nodes.size(), 0);
  for (NodeId n : p.nodes.ids()) {
    for (ValueId v : present(p.node(n).out)) {
      if (graph.transient[graph.storages.of[v]]) writes[n].push_back(graph.storages.of[v]);
    }
    is_taker_[n] = !graph.takes[n].empty();
  }
  writes_ = Lists(writes);
  const size_t storages = graph.storages.list.size();
  groups_.resize(storages), group_.resize(storages);
  next_.resize(storages), shift_.resize(storages);
  position_.resize(p.nodes.size());
}

int64_t OrderPeak::operator()(const std::vector<NodeId>& order) {
  const int32_t end = int32_t(order.size());
  for (StorageId s : groups_.ids()) {
    groups_[s] = {.first = end, .tail = s, .bytes = graph_.bytes[s], .kept = bool(graph_.kept[s])};
    group_[s] = s, next_[s] = kNone, shift_[s] = 0;
  }
  for (int32_t i = 0; i < end; ++i) {
    const NodeId n = order[i];
    position_[n] = i;
    for (StorageId s : graph_.touches[n]) {
      Group& g = groups_[s];
      g.first = std::min(g.first, i), g.last = i;
    }
    for (StorageId s : writes_[n]) groups_[s].written = i;
  }
  for (NodeId n : order) {
    if (!is_taker_[n]) continue;
    for (int32_t t : graph_.takes[n]) take_in_place(n, graph_.take[t]);
  }

  live_.assign(size_t(end) + 1, 0);
  for (StorageId s : groups_.ids()) {
    const Group& g = groups_[s];
    if (group_[s] != s || !graph_.transient[s] || g.last < 0) continue;
    live_[g.first] += g.bytes;
    if (!g.kept) live_[size_t(g.last) + 1] -= g.bytes;
  }
  live_.pop_back();
  int64_t now = graph_.base, peak = end == 0 ? now : 0;
  for (size_t i = 0; i < live_.size(); ++i) {
    now += live_[i];
    live_[i] = now + graph_.workspace[order[i]];
    peak = std::max(peak, live_[i]);
  }
  return peak;
}

void OrderPeak::take_in_place(NodeId n, const OrderGraph::Take& take) {
  if (!may_take(n, take)) return;
  const StorageId a = group(take.old), b = group(take.now);
  const bool whole = offset(take.now) == 0 && graph_.storages[b].bytes == size(take.now);
  const bool swap = whole && groups_[a].members > groups_[b].members;
  swap ? merge(b, a, 0) : merge(a, b, offset(take.now));
}

bool OrderPeak::may_take(NodeId n, const OrderGraph::Take& take) const {
  const StorageId a = group(take.old), b = group(take.now);
  const Group &from = groups_[a], &to = groups_[b];
  if (a == b || from.kept || offset(take.old) != 0 || graph_.storages[a].bytes != size(take.old)) {
    return false;
  }
  const int32_t here = position_[n];
  if (from.last != here || from.written >= here) return false;  // dead after this node
  const Node& node = graph_.program.node(n);
  if (std::count_if(node.in.begin(), node.in.end(),
                    [&](ValueId v) { return v != kNone && group(v) == a; }) != 1) {
    return false;
  }
  const bool whole = offset(take.now) == 0 && graph_.storages[b].bytes == size(take.now);
  return (whole || to.first < from.first) && is_later(n, take.now);
}

// All else that lies where the output will lie is made after it.
bool OrderPeak::is_later(NodeId n, ValueId now) const {
  const int64_t begin = offset(now), end = begin + size(now);
  for (StorageId s = group(now); s != kNone; s = next_[s]) {
    for (ValueId v : graph_.storages.values_of(s)) {
      if (v == now || offset(v) >= end || offset(v) + size(v) <= begin) continue;
      if (position_[graph_.program.value(v).producer] <= position_[n]) return false;
    }
  }
  return true;
}

void OrderPeak::merge(StorageId from, StorageId to, int64_t shift) {
  Group &a = groups_[from], &b = groups_[to];
  for (StorageId s = from; s != kNone; s = next_[s]) {
    group_[s] = to;
    shift_[s] += shift;
  }
  next_[b.tail] = from;
  b.tail = a.tail, b.members += a.members, b.kept |= a.kept;
  b.first = std::min(a.first, b.first), b.last = std::max(a.last, b.last);
  b.written = std::max(a.written, b.written);
  if (a.bytes > 0) b.bytes = align_up(graph_.storages[to].bytes);  // one that counts is enough
}

}  // namespace pal
