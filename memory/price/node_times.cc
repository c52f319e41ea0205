// What makes two nodes take the same time.
#include "memory/price/node_times.h"

#include <algorithm>
#include <cstddef>
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

void TimedNodes::add(const Program& program, const ByNode<double>& measured_ms,
                     const ByNode<double>& predicted_ms) {
  for (NodeId n : program.nodes.ids()) {
    // A view in place; an exchange, which waits for other ranks.
    if (predicted_ms[n] <= 0 || program.node(n).op->collective) continue;
    samples_[node_key(program, n)].push_back(measured_ms[n]);
    for (Sum* sum : {&all_, &by_op_[program.node(n).op->name]}) {
      sum->measured += measured_ms[n], sum->predicted += predicted_ms[n];
    }
  }
}

NodeTimes TimedNodes::times() const {
  NodeTimes out;
  for (const auto& [key, samples] : samples_) {
    std::vector<double> ms = samples;
    const auto middle = ms.begin() + std::ptrdiff_t((ms.size() - 1) / 2);
    std::nth_element(ms.begin(), middle, ms.end());
    out.ms[key] = *middle;
  }
  if (all_.measured > 0) out.scale = all_.measured / all_.predicted;
  for (const auto& [op, sum] : by_op_) out.by_op[op] = sum.measured / sum.predicted;
  return out;
}

}  // namespace pal
