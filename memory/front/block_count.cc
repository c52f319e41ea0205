// Which block a node and a storage belong to, and sums over time.
#include "memory/front/block_count.h"

#include <algorithm>
#include <utility>

#include "memory/pass.h"
#include "memory/schedule/schedule.h"

namespace pal {
namespace {

// A counted step by blocks. Values of the step in parts keep their numbers in it.
class BlockCounter {
 public:
  BlockCounter(const StepView& view, const Segments& segments, const ByValue<int>& border_of,
               const CountedStep& step)
      : view_(view), segments_(segments), border_of_(border_of), step_(step), p_(step.program) {
    out_.blocks.resize(segments.blocks());
  }

  BlockCounts run() {
    place_nodes();
    place_storages();
    sum();
    return std::move(out_);
  }

 private:
  bool is_recorded(ValueId v) const { return v < view_.program.values.next_id(); }

  bool reads_maps(const Node& node) const {
    if (node.phase == Phase::update || node.phase == Phase::encode) return false;
    return std::any_of(node.in.begin(), node.in.end(), [&](ValueId v) {
      return v != kNone && (!is_recorded(v) || !view_.stays(v));
    });
  }

  // A node goes by its outputs; one that was added, in the backward phase by the next gradient, for
  // which it was, before it by the last forward node. Windows come one after the other: a gate that
  // moved up is counted where it is.
  void place_nodes() {
    block_.assign(p_.nodes.size(), kNone);
    for (NodeId n : p_.nodes.ids()) {
      const Phase phase = p_.node(n).phase;
      if (phase != Phase::forward && first_backward_ == kNone && reads_maps(p_.node(n))) {
        first_backward_ = n;
      }
      if (phase != (first_backward_ == kNone ? Phase::forward : Phase::backward)) continue;
      for (ValueId v : present(p_.node(n).out)) {
        if (!is_recorded(v)) continue;
        const NodeId maker = view_.program.value(v).producer;
        if (view_.program.node(maker).phase != phase) continue;
        block_[n] = int(phase == Phase::forward ? segments_.block_of_forward(maker)
                                                : segments_.block_of_backward(maker));
        break;
      }
    }
    if (first_backward_ == kNone) first_backward_ = p_.node_count();  // gradients read no maps
    int next = 0;
    for (NodeId n = p_.node_count(); n-- > first_backward_;) {
      block_[n] = next = std::max(block_[n], next);
    }
    int last = 0;
    for (NodeId n = 0; n < first_backward_; ++n) {
      if (block_[n] == kNone) block_[n] = last;
      last = block_[n];
    }
  }

  void place_storages() {
    const StorageId count = step_.storages.list.size();
    owner_.assign(size_t(count), kNone), is_border_.assign(size_t(count), 0);
    for (StorageId s : owner_.ids()) {
      const Storage& storage = step_.storages[s];
      if (storage.persistent || storage.input || storage.output || storage.space != Space::device) {
        continue;
      }
      int border = kNone;  // that lies there
      for (ValueId v : step_.storages.values_of(s)) {
        const NodeId maker = p_.value(v).producer;
        if (maker == kNone || maker >= first_backward_) continue;
        const Phase phase = p_.node(maker).phase;
        if (phase != Phase::forward && phase != Phase::encode) continue;
        if (is_recorded(v) && (view_.pinned[v] || segments_.kept[view_.storage[v]])) continue;
        // The last that was written there is what stays.
        is_border_[s] = is_recorded(v) && border_of_[v] != kNone;
        owner_[s] = is_border_[s] ? border_of_[v] : block_[maker];
        // Written over a border, which is forgotten there: these bytes are not beside it.
        if (border != kNone && owner_[s] != border && size_t(border) + 1 < out_.blocks.size()) {
          out_.blocks[size_t(border) + 1].over_border += footprint(storage);
        }
        border = is_border_[s] ? owner_[s] : int(kNone);
      }
    }
  }

  void sum() {
    const int64_t turn = start_of(first_backward_);
    std::vector<std::vector<StorageId>> born(step_.live.size() + 1), dead(step_.live.size() + 1);
    for (StorageId s : owner_.ids()) {
      const Lifetime& life = step_.lifetimes[s];
      if (owner_[s] == kNone || life.begin >= life.end) continue;
      born[size_t(life.begin)].push_back(s), dead[size_t(life.end)].push_back(s);
      if (!life.contains(turn)) continue;
      BlockCounts::Block& block = out_.blocks[size_t(owner_[s])];
      is_border_[s] ? block.border_stays = true
                    : (block.kept += footprint(step_.storages[s]), true);
    }
    std::vector<int64_t> alive(out_.blocks.size(), 0);
    std::vector<char> begun(out_.blocks.size(), 0);
    for (size_t moment = 0; moment < step_.live.size(); ++moment) {
      for (StorageId s : dead[moment]) alive[size_t(owner_[s])] -= footprint(step_.storages[s]);
      for (StorageId s : born[moment]) alive[size_t(owner_[s])] += footprint(step_.storages[s]);
      const NodeId n = NodeId(int32_t(moment / 2));
      const auto k = size_t(block_[n]);
      int64_t before = 0;
      for (size_t j = 0; j < k; ++j) before += alive[j];
      const int64_t own = step_.live[moment] - before;
      BlockCounts::Block& block = out_.blocks[k];
      if (n < first_backward_) {
        block.forward_peak = std::max(block.forward_peak, own);
      } else {
        block.backward_peak = std::max(block.backward_peak, own);
        if (!std::exchange(begun[k], 1)) block.base = own - alive[k];
        if (int64_t(moment) == turn) out_.base = block.base;
      }
      if (moment % 2 == 0) block.ms += step_.times.node_ms[n];
    }
  }

  const StepView& view_;
  const Segments& segments_;
  const ByValue<int>& border_of_;
  const CountedStep& step_;
  const Program& p_;
  NodeId first_backward_ = kNone;
  ByNode<int> block_;
  ByStorage<int> owner_;  // the block that made it, or whose border it is
  ByStorage<char> is_border_;
  BlockCounts out_;
};

}  // namespace

CountedStep count_step(const Program& program, const CompileOptions& options,
                       const DeviceProfile& device) {
  const StorageOptions counted = storage_options(options);
  CountedStep out{.program = fused_by(fusions_of(options), program)};
  if (options.schedule != Schedule::program) {
    out.program = schedule_early_updates(out.program, nullptr, {}, counted);
  }
  out.storages = assign_storages(out.program, {}, counted);
  out.lifetimes = lifetimes_of(out.program, out.storages);
  out.live = live_bytes(out.program, out.storages, out.lifetimes);
  out.times = predict(out.program, device, &out.storages);
  for (const int64_t bytes : out.live) out.bytes = std::max(out.bytes, bytes);
  return out;
}

BlockCounts count_blocks(const StepView& view, const Segments& segments,
                         const ByValue<int>& border_of, const CountedStep& step) {
  return BlockCounter(view, segments, border_of, step).run();
}

}  // namespace pal
