// What makes two nodes take the same time.
#include "memory/price/node_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "core/op.h"

namespace pal {

uint64_t node_key(const Program& program, NodeId n) {
  const Node& node = program.node(n);
  uint64_t key = 0xCBF29CE484222325u;  // FNV-1a, by numbers
  const auto take = [&](uint64_t number) {
    key = (key ^ number) * 0x100000001B3u;
    key ^= key >> 32;
  };
  for (const char ch : std::string_view(node.op->name)) take(uint64_t(ch));
  take(node.attrs.hash());
  for (const auto* side : {&node.in, &node.out}) {
    take(side->size());
    for (const ValueId v : *side) {
      if (v == kNone) {
        take(0);
        continue;
      }
      const Value& value = program.value(v);
      take(1 + uint64_t(value.spec.dtype) * 2 + uint64_t(value.space));
      for (const int64_t extent : value.spec.shape) take(uint64_t(extent));
    }
  }
  return key;
}

double NodeTimes::of(const Program& program, NodeId node, double predicted_ms) const {
  const auto found = ms.find(node_key(program, node));
  if (found != ms.end()) return found->second;
  const auto op = by_op.find(program.node(node).op->name);
  return predicted_ms * (op == by_op.end() ? scale : op->second);
}

std::vector<int64_t> typical_run(const std::vector<std::vector<int64_t>>& runs) {
  if (runs.empty()) return {};
  const auto median = [](std::vector<double>& values) {
    const auto middle = values.begin() + std::ptrdiff_t((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  std::vector<double> wholes;  // ns
  for (const auto& run : runs) {
    wholes.push_back(double(std::accumulate(run.begin(), run.end(), int64_t{0})));
  }
  std::vector<double> shares(runs[0].size()), of_node(runs.size());
  for (size_t n = 0; n < shares.size(); ++n) {
    for (size_t i = 0; i < runs.size(); ++i) {
      of_node[i] = wholes[i] > 0 ? double(runs[i][n]) / wholes[i] : 0;
    }
    shares[n] = median(of_node);
  }
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double scale = all > 0 ? median(wholes) / all : 0;
  std::vector<int64_t> ns;
  for (const double share : shares) ns.push_back(std::llround(share * scale));
  return ns;
}

ByNode<double> ms_by_node(const std::vector<int64_t>& ns) {
  ByNode<double> out(ns.size());
  for (NodeId n : out.ids()) out[n] = 1e-6 * double(ns[size_t(n)]);
  return out;
}

void TimedNodes::add(const Program& program, const ByNode<double>& measured_ms,
                     const ByNode<double>& predicted_ms) {
  for (NodeId n : program.nodes.ids()) {
    // A view in place; an exchange, which waits for other ranks.
    if (predicted_ms[n] <= 0 || program.node(n).op->collective) continue;
    Mean& mean = means_[node_key(program, n)];
    mean.ms += measured_ms[n], ++mean.nodes;
    for (Sum* sum : {&all_, &by_op_[program.node(n).op->name]}) {
      sum->measured += measured_ms[n], sum->predicted += predicted_ms[n];
    }
  }
}

NodeTimes TimedNodes::times() const {
  NodeTimes out;
  for (const auto& [key, mean] : means_) out.ms[key] = mean.ms / mean.nodes;
  if (all_.measured > 0) out.scale = all_.measured / all_.predicted;
  for (const auto& [op, sum] : by_op_) out.by_op[op] = sum.measured / sum.predicted;
  return out;
}

}  // namespace pal
