// Cuts, and the variants that they give.
#include "memory/front/block_variants.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "memory/front/block_count.h"
#include "memory/recompute/region_cut.h"
#include "memory/recompute/reruns.h"
#include "memory/swap/trips.h"

namespace pal {
namespace {

// The ladder: a stashed byte costs what moving it so many times takes; at the last, any time.
constexpr double kByteMoves[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1e9};
constexpr NodeId kAnyNode = std::numeric_limits<NodeId>::max();

// A price for every byte, wherever it is kept.
class FlatWeights : public CutWeights {
 public:
  FlatWeights(const StepView& view, const ByNode<double>& node_ms, const DeviceProfile& device,
              double ms_per_byte)
      : view_(view), node_ms_(node_ms), device_(device), ms_per_byte_(ms_per_byte) {}

  int64_t stash(StorageId s) const override { return kept(view_.storage_bytes[s]); }
  int64_t instead(ValueId, int64_t bytes, double moved) const override {
    const double ms = time_ms(Work{.bytes = moved}, device_) + 1e3 * device_.launch;
    return std::min(kMostTicks, 1 + ticks_of(ms) + kept(bytes));
  }
  int64_t again(NodeId n) const override { return 1 + ticks_of(node_ms_[n]); }

 private:
  int64_t kept(int64_t bytes) const { return ticks_of(ms_per_byte_ * double(bytes)); }

  const StepView& view_;
  const ByNode<double>& node_ms_;
  const DeviceProfile& device_;
  const double ms_per_byte_;
};

// Clones that are made again for a reader rather than held since the last one, where that costs
// less than the bytes.
class ListAnew {
 public:
  ListAnew(const StepView& view, const CloneList& list, const ByNode<double>& node_ms,
           double ms_per_byte)
      : p_(view.program),
        needed_(list.needed),
        last_(p_.nodes.size(), kNone),
        held_(p_.nodes.size(), 0) {
    ByNode<double> closure(p_.nodes.size(), 0);  // at most
    for (NodeId n : p_.nodes.ids()) {
      if (p_.node(n).phase != Phase::forward) continue;
      double bytes = 0;
      closure[n] = node_ms[n];
      for (ValueId v : present(p_.node(n).in)) {
        if (needed_[v]) closure[n] += closure[p_.value(v).producer];
      }
      for (ValueId v : present(p_.node(n).out)) {
        if (needed_[v]) bytes += double(p_.value(v).spec.bytes());
      }
      held_[n] = closure[n] >= ms_per_byte * bytes;
    }
  }

  std::vector<CloneList::Clone> run() {
    for (NodeId n : p_.nodes.ids()) {
      const Phase phase = p_.node(n).phase;
      if (phase == Phase::forward || phase == Phase::update) continue;
      const size_t begin = clones_.size();
      want(n, n);
      for (size_t i = begin; i < clones_.size(); ++i) want(clones_[i].original, n);
      std::sort(clones_.begin() + std::ptrdiff_t(begin), clones_.end(),
                [](const auto& a, const auto& b) { return a.original < b.original; });
    }
    return std::move(clones_);
  }

 private:
  void want(NodeId n, NodeId reader) {
    for (ValueId v : present(p_.node(n).in)) {
      if (!needed_[v]) continue;
      const NodeId maker = p_.value(v).producer;
      NodeId& last = last_[maker];
      // A reader right after the last one finds it there.
      const bool there = last != kNone && (held_[maker] || reader - last <= 1);
      last = reader;
      if (!there) clones_.push_back({reader, maker});
    }
  }

  const Program& p_;
  const ByValue<char>& needed_;
  ByNode<NodeId> last_;  // that read its clone
  ByNode<char> held_;
  std::vector<CloneList::Clone> clones_;
};

bool no_worse(const ChainVariant& a, const ChainVariant& b) {
  return a.kept <= b.kept && a.forward_peak <= b.forward_peak &&
         a.backward_peak <= b.backward_peak && a.forward_ms <= b.forward_ms &&
         a.again_ms <= b.again_ms && (!a.reads_border || b.reads_border);
}

}  // namespace

std::vector<Rerun> reruns_of(const Program& parts, const std::vector<CloneList::Clone>& clones) {
  const auto made = [&](NodeId n) { return *present(parts.node(n).out).begin(); };
  std::vector<Rerun> reruns;
  reruns.reserve(clones.size());
  for (const auto& [reader, original] : clones) reruns.push_back({made(original), made(reader)});
  return reruns;
}

BlockVariants::BlockVariants(const StepView& view, const Segments& segments, const StepTimes& times,
                             const CompileOptions& options, const DeviceProfile& device, bool anew)
    : view_(view),
      segments_(segments),
      node_ms_(times.alone),
      device_(device),
      bordered_(view),
      border_of_(view.program.values.size(), kNone),
      rung_of_(segments.blocks()) {
  ByStorage<int> border(view.storage_bytes.size(), kNone);
  for (size_t k = 0; k < segments.borders.size(); ++k) {
    for (StorageId s : segments.borders[k].storages) border[s] = int(k);
  }
  for (ValueId v : border_of_.ids()) {
    const StorageId s = view.storage[v];
    if (view.stays(v) || s == kNone) continue;
    border_of_[v] = border[s];
    if (border[s] != kNone || segments.kept[s]) bordered_.pinned[v] = 1;
  }
  chain_.blocks.resize(segments.blocks());
  for (size_t k = 0; k < segments.borders.size(); ++k) {
    chain_.blocks[k].border = segments.borders[k].bytes;
    chain_.blocks[k].border_to_copy = copies_of(segments.borders[k].storages).to_copy;
    chain_.blocks[k].pass_ms = time_of(pass(int(k)));
  }
  std::vector<double> forward_ms(segments.blocks(), 0);
  for (NodeId n : view.program.nodes.ids()) {
    if (view.program.node(n).phase != Phase::forward) continue;
    forward_ms[segments.block_of_forward(n)] += times.in_step[n];
  }
  for (size_t k = 0; k < forward_ms.size(); ++k) {
    chain_.blocks[k].carried = std::llround(forward_ms[k] * link_bytes_per_ms(device));
  }
  const Reach reach = expand(bordered_, kAnyNode);
  add_rung({.clones = {}, .needed = Choice(view.program.values.size(), 0)}, options, device);
  for (const double moves : kByteMoves) {
    const double ms_per_byte = moves * 1e3 / device.memory;
    const FlatWeights weights(bordered_, node_ms_, device, ms_per_byte);
    const Choice choice =
        cut_regions(bordered_, reach, weights, options.recompute_options.bits, nullptr);
    CloneList list = list_clones(bordered_, choice, kClonesFar);
    CloneList again{.clones = {}, .needed = list.needed};
    if (anew) again.clones = ListAnew(view, list, node_ms_, ms_per_byte).run();
    const bool more = again.clones.size() > list.clones.size();
    if (is_new(list)) add_rung(std::move(list), options, device);
    if (more && is_new(again)) add_rung(std::move(again), options, device);
  }
}

// Whether no rung has these clones.
bool BlockVariants::is_new(const CloneList& list) const {
  return std::none_of(rungs_.begin(), rungs_.end(), [&](const Rung& rung) {
    return rung.list.clones == list.clones && rung.list.needed == list.needed;
  });
}

void BlockVariants::add_rung(CloneList list, const CompileOptions& options,
                             const DeviceProfile& device) {
  Rung rung{std::move(list), ByValue<char>(view_.program.values.size(), 0)};
  const auto reads = [&](const Node& node) {
    for (ValueId v : present(node.in)) {
      rung.kept[v] |= !bordered_.stays(v) && !rung.list.needed[v];
    }
  };
  for (const Node& node : view_.program.nodes) {
    if (node.phase != Phase::forward && node.phase != Phase::update) reads(node);
  }
  for (const CloneList::Clone& clone : rung.list.clones) reads(view_.program.node(clone.original));
  RecomputeOptions asked = options.recompute_options;
  asked.reruns = reruns_of(view_.program, rung.list.clones);
  const CountedStep step = count_step(rerun_clones(view_, asked).program, options, device);
  const BlockCounts count = count_blocks(view_, segments_, border_of_, step);
  const bool plain = rungs_.empty();
  if (plain) least_copied_ = least_worth_copying(step.bytes);
  rung.may_leave = may_leave(rung.kept);
  rungs_.push_back(std::move(rung));
  if (plain) {
    chain_.base = count.base;
    for (const auto& block : count.blocks) plain_ms_.push_back(block.ms);
  }
  for (size_t k = 0; k < count.blocks.size(); ++k) {
    const BlockCounts::Block& counted = count.blocks[k];
    ChainBlock& block = chain_.blocks[k];
    if (plain) block.base = counted.base;
    block.pass_peak = counted.forward_peak - chain_.base;  // of the last rung in the end
    const Copies copies = copies_of(storages_of(rungs_.back().may_leave[k]));
    const ChainVariant variant{
        .kept = counted.kept,
        .may_leave = std::min(counted.kept, copies.bytes),
        .to_copy = copies.to_copy,
        .forward_peak = counted.forward_peak - counted.over_border - chain_.base,
        .backward_peak = counted.backward_peak,
        .forward_ms = time_of(closure(int(k), &rungs_.back().kept)),
        .again_ms = counted.ms - plain_ms_[k],
        .reads_border = k > 0 && count.blocks[k - 1].border_stays};
    const auto worse = std::any_of(block.variants.begin(), block.variants.end(),
                                   [&](const ChainVariant& v) { return no_worse(v, variant); });
    if (worse) continue;
    block.variants.push_back(variant);
    rung_of_[k].push_back(int(rungs_.size()) - 1);
  }
}

std::vector<NodeId> BlockVariants::closure(int block, const ByValue<char>* kept) const {
  const Program& p = view_.program;
  const auto& borders = segments_.borders;
  const NodeId first = block == 0 ? NodeId(0) : NodeId(borders[size_t(block - 1)].after + 1);
  const NodeId last = size_t(block) < borders.size() ? NodeId(borders[size_t(block)].after)
                                                     : NodeId(p.node_count() - 1);
  const NodeId length = last - first + 1;
  std::vector<char> runs(size_t(std::max<NodeId>(length, 0)), 0);
  std::vector<NodeId> nodes;
  for (NodeId n = last; n >= first; --n) {
    const Node& node = p.node(n);
    if (node.phase != Phase::forward || !view_.clonable[n]) continue;
    bool run = runs[size_t(n - first)];
    for (ValueId v : present(node.out)) {
      run |= border_of_[v] == block || (kept && (*kept)[v]);
    }
    if (!run) continue;
    nodes.push_back(n);
    for (ValueId v : present(node.in)) {
      if (view_.stays(v) || segments_.kept[view_.storage[v]]) continue;
      const NodeId maker = p.value(v).producer;
      if (maker >= first) runs[size_t(maker - first)] = 1;
    }
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

std::vector<NodeId> BlockVariants::pass(int block) const { return closure(block, nullptr); }

std::vector<NodeId> BlockVariants::forward(int block, int variant) const {
  return closure(block, &rung(block, variant).kept);
}

const BlockVariants::Rung& BlockVariants::rung(int block, int variant) const {
  return rungs_[size_t(rung_of_[size_t(block)][size_t(variant)])];
}

std::vector<CloneList::Clone> BlockVariants::again(int block, int variant) const {
  std::vector<CloneList::Clone> clones;
  for (const CloneList::Clone& clone : rung(block, variant).list.clones) {
    if (int(segments_.block_of_forward(clone.original)) == block) clones.push_back(clone);
  }
  return clones;
}

const std::vector<ValueId>& BlockVariants::may_leave(int block, int variant) const {
  return rung(block, variant).may_leave[size_t(block)];
}

std::vector<std::vector<ValueId>> BlockVariants::may_leave(const ByValue<char>& kept) const {
  std::vector<std::vector<ValueId>> values(segments_.blocks());
  if (device_.link == 0) return values;
  for (ValueId v : kept.ids()) {
    if (!kept[v] || view_.storage_bytes[view_.storage[v]] < least_copied_) continue;
    const NodeId maker = view_.program.value(v).producer;
    if (view_.program.node(maker).phase != Phase::forward) continue;
    values[segments_.block_of_forward(maker)].push_back(v);
  }
  return values;
}

// Each once.
std::vector<StorageId> BlockVariants::storages_of(const std::vector<ValueId>& values) const {
  std::vector<StorageId> storages;
  for (ValueId v : values) storages.push_back(view_.storage[v]);
  std::sort(storages.begin(), storages.end());
  storages.erase(std::unique(storages.begin(), storages.end()), storages.end());
  return storages;
}

BlockVariants::Copies BlockVariants::copies_of(const std::vector<StorageId>& storages) const {
  Copies copies;
  if (device_.link == 0) return copies;
  double ms = 0;
  for (const StorageId s : storages) {
    const int64_t bytes = view_.storage_bytes[s];
    copies.bytes += bytes;
    ms += time_ms({.bytes = double(bytes), .host_bytes = double(bytes)}, device_);
  }
  copies.to_copy = std::llround(ms * link_bytes_per_ms(device_));
  return copies;
}

double BlockVariants::time_of(const std::vector<NodeId>& nodes) const {
  double ms = 0;
  for (const NodeId n : nodes) ms += node_ms_[n];
  return ms;
}

}  // namespace pal
