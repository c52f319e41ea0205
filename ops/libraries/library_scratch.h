// Scratch memory for CUDA's libraries, in a plan and to try them with. In a plan they want it on a
// wider boundary than that of a plan's storages: cuBLASLt refuses any other, cuDNN's manual does
// not say, allocations begin so.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/accelerator.h"

namespace pal {

constexpr int64_t kLibraryBoundary = 256;

// To reserve for a library that wants so many bytes.
inline int64_t library_workspace(int64_t wanted) { return wanted ? wanted + kLibraryBoundary : 0; }
// Where its bytes begin in what was reserved; null where it wants none.
inline std::byte* library_scratch(std::byte* reserved, int64_t wanted) {
  if (!wanted) return nullptr;
  const auto past = int64_t(reinterpret_cast<uintptr_t>(reserved) % uintptr_t(kLibraryBoundary));
  return reserved + (kLibraryBoundary - past) % kLibraryBoundary;
}

// Bytes of a device for as long as it lives, to try a library with.
class TrialMemory {
 public:
  // BudgetError where there is no room. `again`: as Accelerator::allocate().
  TrialMemory(Accelerator& device, int64_t bytes, bool again)
      : device_(device), at_(device.allocate(Space::device, bytes, again)) {}
  ~TrialMemory() { device_.release(Space::device, at_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  std::byte* at() const { return at_; }

 private:
  Accelerator& device_;
  std::byte* at_;
};

// Null where the device has no room for it, which asks nobody to make any.
inline std::unique_ptr<TrialMemory> trial_memory_if_room(Accelerator& device, int64_t bytes) {
  try {
    return std::make_unique<TrialMemory>(device, bytes, false);
  } catch (const BudgetError&) {
    return nullptr;
  }
}

}  // namespace pal
