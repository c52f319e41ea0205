// Pieces to rank 0, a window at a time.
#include "train/loop/sharded_state.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "ops/kernels/ranks.h"

namespace pal {
namespace {

constexpr int64_t kWindowBytes = int64_t(64) << 20;  // bytes that rank 0 holds of others

}  // namespace

ShardedState::ShardedState(std::shared_ptr<Group> group, const Program& whole, bool weights)
    : group_(std::move(group)), weights_(weights) {
  for (const StateSlot& slot : whole.state) whole_[slot.name] = whole.value(slot.start).spec;
}

bool ShardedState::is_piece(const StateTensor& slot) const {
  // By role: a piece of a small vector has the vector's shape.
  const bool divided =
      slot.role == Role::optimizer_state || (weights_ && slot.role == Role::weight);
  return group_ && divided && whole_.contains(slot.name);
}

const TensorSpec& ShardedState::whole(const StateTensor& slot) const {
  return is_piece(slot) ? whole_.at(slot.name) : slot.spec;
}

Divided ShardedState::divided(const StateTensor& slot) const {
  const TensorSpec& all = whole(slot);
  const int64_t each = bits(all.dtype) / 8;
  return {all.bytes(), piece_elements(all.numel(), group_->size()) * each};
}

std::pair<int64_t, int64_t> ShardedState::own(const StateTensor& slot) const {
  if (!is_piece(slot)) return {0, slot.spec.bytes()};
  const Divided d = divided(slot);
  return {d.begin(group_->rank()), d.bytes(group_->rank())};
}

void ShardedState::take_own(const StateTensor& slot, const std::byte* whole) const {
  const auto [begin, bytes] = own(slot);
  std::memcpy(slot.data, whole + begin, size_t(bytes));
  std::memset(slot.data + bytes, 0, size_t(slot.spec.bytes() - bytes));
}

void ShardedState::collect(const StateTensor& slot, const Write& write) const {
  if (!is_piece(slot)) {
    if (writes()) write(slot.data, size_t(slot.spec.bytes()));
    return;
  }
  const Divided d = divided(slot);
  std::vector<std::byte> window;
  for (int q = 0; q < group_->size(); ++q) {
    for (int64_t at = 0; at < d.bytes(q); at += kWindowBytes) {
      const int64_t bytes = std::min(kWindowBytes, d.bytes(q) - at);
      if (q == 0) {
        if (writes()) write(slot.data + at, size_t(bytes));
        continue;
      }
      if (writes()) window.resize(size_t(bytes));
      std::byte* const data = writes() ? window.data() : slot.data + at;
      group_->bring(data, bytes, q);
      if (writes()) write(window.data(), size_t(bytes));
    }
  }
}

std::vector<std::byte> ShardedState::gather(const StateTensor& slot) const {
  std::vector<std::byte> all(size_t(whole(slot).bytes()));
  if (!is_piece(slot)) {
    std::memcpy(all.data(), slot.data, all.size());
    return all;
  }
  const Divided d = divided(slot);
  std::vector<std::byte> rows(size_t(d.piece * group_->size()));
  group_->share(slot.data, rows.data(), d.piece);
  std::memcpy(all.data(), rows.data(), all.size());  // pieces follow each other without gaps
  return all;
}

}  // namespace pal
