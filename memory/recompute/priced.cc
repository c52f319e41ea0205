// Weights in ticks, and rounds of cuts.
#include "memory/recompute/priced.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/error.h"
#include "memory/recompute/region_cut.h"

namespace pal {
namespace {

constexpr NodeId kHoweverFar = std::numeric_limits<NodeId>::max();

// Where values are read, as positions.
struct Spans {
  ByStorage<Position> last_forward, first_later;
};

Spans spans_of(const StepView& view, const ByNode<Position>& position, const Reach& reach) {
  const Program& p = view.program;
  constexpr Position kNever = std::numeric_limits<Position>::max();
  Spans spans{ByStorage<Position>(view.storage_bytes.size(), 0),
              ByStorage<Position>(view.storage_bytes.size(), kNever)};
  for (NodeId n : p.nodes.ids()) {
    const Node& node = p.node(n);
    if (node.phase != Phase::forward) continue;
    const auto touch = [&](ValueId v) {
      if (view.stays(v)) return;
      Position& last = spans.last_forward[view.storage[v]];
      last = std::max(last, position[n] + 1);
    };
    for (ValueId v : node.in) touch(v);
    for (ValueId v : node.out) touch(v);
  }
  for (ValueId v : p.values.ids()) {
    if (!reach.is_target(view, v)) continue;
    Position& first = spans.first_later[view.storage[v]];
    first = std::min(first, position[reach.first[v]]);
  }
  return spans;
}

class TimeAsWeights : public CutWeights {
 public:
  TimeAsWeights(const StepView& view, const PriceSums& prices, const ByNode<Position>& position,
                const ByNode<double>& node_ms, const DeviceProfile& device, const Reach& reach)
      : view_(view),
        prices_(prices),
        position_(position),
        node_ms_(node_ms),
        device_(device),
        reach_(reach),
        spans_(spans_of(view, position, reach)) {}

  int64_t stash(StorageId s) const override { return kept(s, view_.storage_bytes[s]); }
  int64_t instead(ValueId v, int64_t bytes, double moved) const override {
    const int64_t time = ticks_of(time_ms({.bytes = moved}, device_) + 1e3 * device_.launch);
    return 1 + time + kept(view_.storage[v], bytes);
  }
  int64_t again(NodeId n) const override {
    int64_t ticks = 1 + ticks_of(node_ms_[n]);
    for (ValueId v : view_.program.node(n).out) {
      if (reach_.is_target(view_, v)) ticks = std::min(ticks + held(v), kMostTicks);
    }
    return ticks;
  }

 private:
  int64_t kept(StorageId s, int64_t bytes) const {
    return prices_.ticks(bytes, spans_.last_forward[s], spans_.first_later[s]);
  }
  // From its clone to its own gradients, which hold it in any case; without such, to its last
  // reader.
  int64_t held(ValueId v) const {
    const Position begin = position_[reach_.first[v]];
    const Position end =
        view_.first_use[v] == kNone ? position_[reach_.last[v]] + 1 : position_[view_.first_use[v]];
    return prices_.ticks(view_.program.value(v).spec.bytes(), begin, end);
  }

  const StepView& view_;
  const PriceSums& prices_;
  const ByNode<Position>& position_;
  const ByNode<double>& node_ms_;
  const DeviceProfile& device_;
  const Reach& reach_;
  const Spans spans_;
};

}  // namespace

Choice choose_priced(const StepView& view, const RecomputeOptions& options,
                     const DeviceProfile& device) {
  const PriceSums prices(options.prices);
  const ByNode<Position> position = positions_of(view.program);
  const ByNode<double> node_ms = predict(view.program, device).node_ms;
  Choice choice(view.program.values.size(), 0);
  for (int round = 0; round < options.rounds; ++round) {
    const Reach reach = expand(view, kHoweverFar, &choice);
    const TimeAsWeights weights(view, prices, position, node_ms, device, reach);
    choice = cut_regions(view, reach, weights, options.bits, nullptr);
  }
  return choice;
}

namespace {

Choice given_choice(const StepView& view, const std::vector<ValueId>& chosen) {
  Choice choice(view.program.values.size(), 0);
  for (ValueId v : chosen) {
    if (v < 0 || size_t(v) >= choice.size()) {
      throw ProgramError("[priced] value " + std::to_string(v) + " was chosen; the step has " +
                         std::to_string(choice.size()) + ": it was chosen for another step");
    }
    choice[v] = 1;
  }
  return choice;
}

}  // namespace

Clones priced_clones(const StepView& view, const RecomputeOptions& options,
                     const DeviceProfile& device) {
  Choice choice =
      options.chosen ? given_choice(view, *options.chosen) : choose_priced(view, options, device);
  Clones clones = insert_clones(view, std::move(choice), kClonesFar);
  if (options.bits) stash_bits(clones);
  return clones;
}

}  // namespace pal
