// Both are lifetimes under other rules; the framework's has storages more, for what dropout draws.
#include "memory/baselines.h"

#include <map>
#include <utility>
#include <vector>

#include "core/op.h"
#include "memory/lifetimes.h"
#include "memory/storages.h"

namespace pal {
namespace {

// One f32 for each element that a replaying node multiplies, from it to the last node that draws the
// same numbers (the same operator with the same attributes: they name the stream).
void add_masks(const Program& p, Storages& storages, std::vector<Lifetime>& lifetimes) {
  std::map<std::pair<const OpDef*, std::string>, NodeId> last;
  for (NodeId n = p.node_count(); n-- > 0;) {
    const Node& node = p.node(n);
    if (!node.op->replays_random) continue;
    const std::pair<const OpDef*, std::string> drawn{node.op, node.attrs.print()};
    if (node.phase != Phase::forward) {
      last.emplace(drawn, n);
    } else if (auto replay = last.find(drawn); replay != last.end() && node.out[0] != kNone) {
      const int64_t elements = p.value(node.out[0]).spec.numel();
      storages.list.push_back({.bytes = elements * int64_t(sizeof(float))});
      lifetimes.push_back({start_of(n), done_of(replay->second)});
    }
  }
}

}  // namespace

Baselines baselines_of(const Program& program, std::span<const int64_t> workspace_bytes) {
  const Storages ours = assign_storages(program, workspace_bytes);
  Storages theirs = assign_storages(program, workspace_bytes, {.over_feature_maps = false});
  std::vector<Lifetime> lifetimes = lifetimes_of(program, theirs);
  add_masks(program, theirs, lifetimes);
  return {.ours = peak_of(ours, lifetimes_of(program, ours)).bytes,
          .framework = peak_of(theirs, lifetimes).bytes};
}

}  // namespace pal
