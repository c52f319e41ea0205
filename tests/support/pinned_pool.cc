// Free blocks by size, in powers of two.
#include "tests/support/pinned_pool.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

namespace pal::test {
namespace {

constexpr int64_t kLeast = 4096;

std::map<int64_t, std::vector<std::byte*>>& free_blocks() {
  static auto& blocks = *new std::map<int64_t, std::vector<std::byte*>>;
  return blocks;
}
int64_t pinned = 0;

}  // namespace

std::shared_ptr<std::byte[]> pooled_pinned(Accelerator& accelerator, int64_t bytes) {
  const auto size = int64_t(std::bit_ceil(uint64_t(std::max(bytes, kLeast))));
  std::vector<std::byte*>& free = free_blocks()[size];
  std::byte* block = nullptr;
  if (free.empty()) {
    block = accelerator.allocate(Space::host, size), ++pinned;
  } else {
    block = free.back();
    free.pop_back();
  }
  return {block, [&free](std::byte* p) { free.push_back(p); }};
}

int64_t pinned_blocks() { return pinned; }

}  // namespace pal::test
