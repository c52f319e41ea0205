// By the phase of the node that makes the map.
#include "memory/front/maps.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace pal {
namespace {

std::optional<MapIs> made_in(Phase phase) {
  if (phase == Phase::forward) return MapIs::kept;
  if (phase == Phase::recompute) return MapIs::made_again;
  if (phase == Phase::encode) return MapIs::encoded;
  return {};
}

}  // namespace

void each_map(const Compiled& step,
              const std::function<void(ValueId, MapIs, int64_t bytes)>& visit) {
  const Program& p = step.program;
  const Readers readers(p);
  ByStorage<char> counted(step.storages.list.size(), 0);
  for (ValueId v : p.values.ids()) {
    const Value& value = p.value(v);
    const StorageId s = step.storages.of[v];
    if (value.producer == kNone || s == kNone || step.storages[s].persistent) continue;
    const Phase made = p.node(value.producer).phase;
    if (made == Phase::offload) visit(v, MapIs::away, value.spec.bytes());
    const bool later = std::any_of(readers[v].begin(), readers[v].end(), [&](NodeId r) {
      const Phase phase = p.node(r).phase;
      return phase == Phase::backward || phase == Phase::recompute || phase == Phase::decode;
    });
    const std::optional<MapIs> is = made_in(made);
    if (later && !std::exchange(counted[s], 1) && is) visit(v, *is, step.storages[s].bytes);
  }
}

}  // namespace pal
