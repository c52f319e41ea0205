// What makes two nodes take the same time.
#include "memory/price/node_times.h"

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

}  // namespace pal
