// What kernels that know of ranks have from prepare: the group, and how tensors are divided.
#pragma once
#include <algorithm>
#include <memory>

#include "core/device.h"
#include "core/op.h"
#include "core/ranks/device_group.h"
#include "core/ranks/group.h"
#include "ops/kernels/tiles.h"

namespace pal {

// Where pieces are cut: so that sums of squares (square_tiles) are those of the whole.
constexpr int64_t kPieceGrain = kTile;

// Elements of each rank's piece of a tensor: the least multiple of the grain with which so many
// pieces hold all, and no more than all. The last ranks' may hold fewer, or none.
inline int64_t piece_elements(int64_t elements, int64_t ranks) {
  const int64_t grains = (elements + kPieceGrain - 1) / kPieceGrain;
  return std::min(elements, (grains + ranks - 1) / ranks * kPieceGrain);
}

struct Ranks {
  std::shared_ptr<Group> group;  // null: one rank alone, or a step that is only planned
  std::shared_ptr<DeviceGroup> device_group;  // null: likewise, and on the processor
  int64_t count;
};
inline Ranks ranks_of(const Device& device, int64_t count) {
  return {device.group, device.device_group, count};
}
// Of an operator whose attributes have `ranks`.
template <class A>
Prepared prepare_ranks(const Device& device, SpecSpan, SpecSpan, const Attrs& a) {
  return {.state = std::make_shared<Ranks>(ranks_of(device, a.as<A>().ranks))};
}
template <class G> G* group_of_so_many(G* group, int64_t count) {
  if (count == 1) return nullptr;
  const int64_t there = group ? group->size() : 1;
  if (there == count) return group;
  throw ProgramError("[ranks] the step is for " + std::to_string(count) + " ranks and there are " +
                     std::to_string(there));
}
// Null where there is one rank. ProgramError where the step is for others than there are.
inline Group* group_of(const KernelArgs& a) {
  const Ranks& ranks = *static_cast<const Ranks*>(a.state);
  return group_of_so_many(ranks.group.get(), ranks.count);
}
inline DeviceGroup* device_group_of(const KernelArgs& a) {
  const Ranks& ranks = *static_cast<const Ranks*>(a.state);
  return group_of_so_many(ranks.device_group.get(), ranks.count);
}
// This rank's place in a tensor of so many elements.
struct OwnPiece {
  int64_t begin, count;
};
inline OwnPiece own_piece_of(const KernelArgs& a, int64_t elements) {
  const Group* const group = group_of(a);
  if (!group) return {0, elements};
  const Divided d{elements, piece_elements(elements, group->size())};
  return {d.begin(group->rank()), d.bytes(group->rank())};
}

}  // namespace pal
