// What a card's memory holds that is in no plan, for those who ask how large a plan may be, and
// those who allocate it. Nothing of it was measured: the figures are generous, and halves of one
// GiB.
#pragma once
#include <algorithm>
#include <cstdint>

namespace pal {

constexpr int64_t kMostOutside = int64_t(512) << 20;

// The context, which is there before anything is allocated: that much on a card of `total` bytes.
inline int64_t context_bytes(int64_t total) { return std::min(kMostOutside, total / 16); }
// What comes after the arena, which leaves so much: modules and libraries that are loaded when they
// are first used, the local memory of kernels, recorded steps.
inline int64_t left_bytes(int64_t total) { return std::min(kMostOutside, total / 16); }
// The most that a plan may need.
inline int64_t room_for_plans(int64_t total) {
  return total - context_bytes(total) - left_bytes(total);
}

}  // namespace pal
