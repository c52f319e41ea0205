// Regions by union of nodes that read each other.
#include "memory/recompute/clone_regions.h"

#include <algorithm>
#include <cstdint>

namespace pal {
namespace {

// Nodes that one choice recomputes and another does not, where one reads another as one region.
struct CloneRegion {
  std::vector<NodeId> nodes;
  int64_t bytes = 0;  // of what need not be stashed
  double ms = 0;
};

std::vector<CloneRegion> regions_between(const StepView& view, const ByNode<double>& node_ms,
                                         const Choice& base, const Choice& dear) {
  const Program& p = view.program;
  auto extra = [&](ValueId v) { return v != kNone && dear[v] && !base[v]; };
  ByNode<NodeId> root(p.nodes.size(), kNone);
  auto find = [&](NodeId n) {
    while (root[n] != n) n = root[n] = root[root[n]];
    return n;
  };
  for (NodeId n = 0; n < p.node_count(); ++n) {
    if (std::none_of(p.node(n).out.begin(), p.node(n).out.end(), extra)) continue;
    root[n] = n;
    for (ValueId v : p.node(n).in) {
      if (extra(v)) root[find(p.value(v).producer)] = n;
    }
  }
  ByNode<int32_t> number(p.nodes.size(), -1);
  ByStorage<char> counted(view.storage_bytes.size(), 0);
  std::vector<CloneRegion> regions;
  for (NodeId n = 0; n < p.node_count(); ++n) {
    if (root[n] == kNone) continue;
    int32_t& at = number[find(n)];
    if (at < 0) at = int32_t(regions.size()), regions.emplace_back();
    CloneRegion& region = regions[size_t(at)];
    region.nodes.push_back(n);
    region.ms += node_ms[n];
    for (ValueId v : p.node(n).out) {
      if (!extra(v) || view.first_use[v] == kNone || counted[view.storage[v]]) continue;
      region.bytes += view.storage_bytes[view.storage[v]];
      counted[view.storage[v]] = 1;
    }
  }
  return regions;
}

}  // namespace

std::vector<NodeId> nodes_by_worth(const StepView& view, const ByNode<double>& node_ms,
                                   const Choice& base, const Choice& dear) {
  std::vector<CloneRegion> regions = regions_between(view, node_ms, base, dear);
  std::stable_sort(regions.begin(), regions.end(), [](const CloneRegion& a, const CloneRegion& b) {
    return double(a.bytes) * b.ms > double(b.bytes) * a.ms;
  });
  std::vector<NodeId> nodes;
  for (const CloneRegion& region : regions) {
    nodes.insert(nodes.end(), region.nodes.rbegin(), region.nodes.rend());
  }
  return nodes;
}

}  // namespace pal
