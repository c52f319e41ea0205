// Lifetimes under other rules; the framework's has storages more, for what dropout draws, and with
// cuDNN readers more.
#include "memory/price/baselines.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/op.h"
#include "memory/storages/lifetimes.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

constexpr Habit kHabits[] = {
    {.op = "dropout", .keeps_random = true},
    {.op = "max_pool", .cudnn_keeps_both = true, .cntk_keeps_both = true},
    {.op = "relu", .cudnn_keeps_both = true},
    {.op = "sigmoid", .cudnn_keeps_both = true},
    {.op = "tanh", .cudnn_keeps_both = true},
};
// One f32 for each element that a replaying node multiplies, from it to the last node that draws
// the same numbers (the same operator with the same attributes: they name the stream).
void add_masks(const Program& p, Storages& storages, ByStorage<Lifetime>& lifetimes) {
  std::map<std::pair<const OpDef*, std::string>, NodeId> last;
  for (NodeId n = p.node_count(); n-- > 0;) {
    const Node& node = p.node(n);
    if (!habit_of(*node.op).keeps_random) continue;
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

// The step with what cuDNN's gradients read beyond ours: the operand too, up to the last gradient
// that reads what the node left.
Program as_cudnn_reads(Program p) {
  const Readers readers(p);
  for (NodeId n : p.nodes.ids()) {
    const Node& node = p.node(n);
    if (node.phase != Phase::forward || !habit_of(*node.op).cudnn_keeps_both) continue;
    NodeId last = kNone;
    for (ValueId v : present(node.out)) {
      for (NodeId r : readers[v]) {
        if (p.node(r).phase == Phase::backward) last = std::max(last, r);
      }
    }
    if (last != kNone) p.nodes[last].in.push_back(node.in[0]);
  }
  return p;
}

int64_t framework_peak(const Program& p, const ByNode<int64_t>& workspace_bytes) {
  Storages storages = assign_storages(p, workspace_bytes, {.over_feature_maps = false});
  ByStorage<Lifetime> lifetimes = lifetimes_of(p, storages);
  add_masks(p, storages, lifetimes);
  return peak_of(storages, lifetimes).bytes;
}

}  // namespace

std::span<const Habit> framework_habits() { return kHabits; }

Habit habit_of(const OpDef& op) {
  for (const Habit& habit : kHabits) {
    if (habit.op == op.name) return habit;
  }
  return {};
}

Baselines baselines_of(const Program& program, const ByNode<int64_t>& workspace_bytes) {
  const Storages ours = assign_storages(program, workspace_bytes);
  return {.ours = peak_of(ours, lifetimes_of(program, ours)).bytes,
          .framework = framework_peak(program, workspace_bytes),
          .cudnn = framework_peak(as_cudnn_reads(program), workspace_bytes)};
}

}  // namespace pal
