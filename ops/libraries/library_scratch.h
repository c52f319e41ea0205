// Scratch memory for CUDA's libraries, which want it on a wider boundary than that of a plan's
// storages: cuBLASLt refuses any other, cuDNN's manual does not say, allocations begin so.
#pragma once
#include <cstddef>
#include <cstdint>

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

}  // namespace pal
