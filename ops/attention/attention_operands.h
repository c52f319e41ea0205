// Where attention's q, k and v lie: each a value of its own, or side by side in the rows of one.
#pragma once
#include <array>

#include "core/op.h"

namespace pal {

struct AttentionOperands {
  int64_t queries, keys, batch, columns;  // T, S, B, D
  DType type;
  int64_t q_pitch, kv_pitch;  // elements between two rows: D, 2 D or 3 D

  // q, k and v, or their gradients, in a list that has them from `first` on. Null where not there.
  std::array<void*, 3> in(std::span<void* const> list, size_t first) const {
    auto behind = [&](void* p, int64_t parts) -> void* {
      return p ? static_cast<std::byte*>(p) + parts * columns * bits(type) / 8 : nullptr;
    };
    void* const q = list[first];
    if (q_pitch > columns) return {q, behind(q, 1), behind(q, 2)};
    void* const k = list[first + 1];
    return {q, k, kv_pitch > columns ? behind(k, 1) : list[first + 2]};
  }
};

// Of a node whose operands they are from `first` on, checked.
AttentionOperands attention_operands(SpecSpan in, size_t first);
// Where attention has them, and its gradient. Lengths and scalars follow.
constexpr size_t kAttentionQ = 0, kAttentionGradQ = 3;

}  // namespace pal
