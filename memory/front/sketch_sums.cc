// Sums of a block are renewed where it changed, and asked where it did not.
#include "memory/front/sketch_sums.h"

#include <algorithm>
#include <utility>

namespace pal {

SketchSums::SketchSums(const SketchTable& table, const SketchSlots& slots)
    : t_(table), slots_(slots) {
  const size_t nodes = t_.order.size(), blocks = nodes / kBlock + 1;
  begins_.resize(nodes + 1), of_clone_.resize(nodes);
  ends_in_slot_.assign(nodes, 0), shared_.assign(nodes, 0);
  is_stale_.assign(blocks, 1), blocks_.resize(blocks);
  in_nodes_.assign(nodes, 0), in_clones_.resize(blocks);
}

void SketchSums::hold(const PlaceSpan& span, int64_t bytes) {
  const auto begin = size_t(position_of(span.begin)), end = size_t(position_of(span.end));
  const bool in_slot = runs_at(span.end) != kNodeItself;
  const size_t after = in_slot ? end : end + 1;  // the first node without it
  mark(begin), mark(after);
  if (begin < after) begins_[begin].node += bytes, begins_[after].node -= bytes;
  if (begin + 1 < after) {
    begins_[begin + 1].slot += bytes, begins_[after].slot -= bytes;
    mark(begin + 1);
  }
  if (runs_at(span.begin) != kNodeItself) of_clone_[runs_at(span.begin)].begins += bytes;
  if (!in_slot) return;
  of_clone_[runs_at(span.end)].ends += bytes;
  if (begin < end) ends_in_slot_[end] += bytes;
}

void SketchSums::share(int32_t position, int64_t bytes) {
  if (std::exchange(shared_[size_t(position)], bytes) != bytes) mark(size_t(position));
}

void SketchSums::share_clone(NodeId n, int32_t position, int64_t bytes) {
  if (std::exchange(of_clone_[n].shared, bytes) != bytes) mark(size_t(position));
}

void SketchSums::renew(size_t number) {
  std::vector<int64_t>& in_clones = in_clones_[number];
  in_clones.clear();
  const size_t begin = number * kBlock, end = std::min(begin + kBlock, t_.order.size());
  Block block;
  for (size_t i = begin; i < end; ++i) {
    block.node += begins_[i].node, block.slot += begins_[i].slot;
    if (slots_.any(i)) {
      int64_t alive = block.slot + t_.before[i] + ends_in_slot_[i];
      for (const NodeId n : slots_[i]) {
        const OfClone& clone = of_clone_[n];
        alive += clone.begins;
        const int64_t now = alive - clone.shared;
        in_clones.push_back(now), block.clones.add(now);
        alive -= clone.ends;
      }
    }
    const int64_t now = block.node + t_.during[i] - shared_[i];
    in_nodes_[i] = now, block.nodes.add(now);
  }
  blocks_[number] = block;
}

int64_t SketchSums::over_in(size_t number, int64_t node, int64_t slot, int64_t limit) const {
  const Block& block = blocks_[number];
  const auto over = [&](const Levels& levels, int64_t base, const int64_t* bytes) {
    if (levels.count == 0 || base + levels.most <= limit) return int64_t{0};
    if (base + levels.least >= limit) return levels.sum + levels.count * (base - limit);
    int64_t sum = 0;
    for (int64_t k = 0; k < levels.count; ++k) {
      sum += std::max<int64_t>(base + bytes[k] - limit, 0);
    }
    return sum;
  };
  return over(block.nodes, node, in_nodes_.data() + number * kBlock) +
         over(block.clones, slot, in_clones_[number].data());
}

SketchSums::Sums SketchSums::count(int64_t limit) {
  limit_ = limit, has_above_ = false;
  Sums sums;
  int64_t node = 0, slot = 0;
  for (size_t number = 0; number < blocks_.size(); ++number) {
    if (std::exchange(is_stale_[number], 0)) renew(number);
    Block& block = blocks_[number];
    if (block.at_node != node || block.at_slot != slot || block.limit != limit) {
      block.over = over_in(number, node, slot, limit);
      block.at_node = node, block.at_slot = slot, block.limit = limit;
    }
    if (block.nodes.count > 0) sums.most = std::max(sums.most, node + block.nodes.most);
    if (block.clones.count > 0) sums.most = std::max(sums.most, slot + block.clones.most);
    sums.over += block.over;
    node += block.node, slot += block.slot;
  }
  return sums;
}

void SketchSums::list_above() {
  above_node_.resize(t_.order.size()), above_clone_.resize(t_.order.size());
  int64_t over = 0, node = 0, slot = 0;
  const auto reach = [&](int64_t alive) { over += std::max<int64_t>(alive - limit_, 0); };
  for (size_t number = 0, i = 0; number < blocks_.size(); ++number) {
    const int64_t* clone = in_clones_[number].data();
    for (size_t k = 0; k < kBlock && i < t_.order.size(); ++k, ++i) {
      for (const NodeId n : slots_[i]) above_clone_[n] = over, reach(slot + *clone++);
      above_node_[i] = over, reach(node + in_nodes_[i]);
    }
    node += blocks_[number].node, slot += blocks_[number].slot;
  }
}

bool SketchSums::any_above(int32_t position, Place until) {
  if (!std::exchange(has_above_, true)) list_above();
  const auto first = size_t(position);
  const int64_t before =
      slots_.any(first) ? above_clone_[slots_[first].front()] : above_node_[first];
  const int32_t what = runs_at(until);
  const int64_t after =
      what == kNodeItself ? above_node_[size_t(position_of(until))] : above_clone_[what];
  return after > before;
}

}  // namespace pal
