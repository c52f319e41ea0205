// The arena: what was there stays when it grows, what is new is zero, and nobody writes behind it.
#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "memory/run/static_plan.h"

namespace pal::test {
namespace {

std::byte pattern(Space space, int64_t i) {
  return std::byte((i * 131 + i / 4096 + (space == Space::host ? 7 : 0)) % 251 + 1);
}

// Sizes within a page, to its end, over it, of many pages, and smaller ones, which change nothing.
TEST(Arena, KeepsEveryByteWhenItGrows) {
  Arena arena;
  int64_t had[2] = {0, 0};
  for (int64_t bytes : {64, 100, 4096, 4097, 8192, 100, 50'000, 1 << 20, 9'000'001}) {
    for (Space space : {Space::device, Space::host}) {
      int64_t& before = had[region_of(space)];
      arena.reserve(space, bytes);
      ASSERT_EQ(arena.bytes(space), std::max(before, bytes));
      const std::byte* const base = arena.base(space);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(base) % uintptr_t(kAlignment), 0u);
      for (int64_t i = 0; i < before; ++i)
        ASSERT_EQ(base[i], pattern(space, i)) << bytes << " " << i;
      for (int64_t i = before; i < arena.bytes(space); ++i) ASSERT_EQ(base[i], std::byte(0)) << i;
      before = arena.bytes(space);
      for (int64_t i = 0; i < before; ++i) arena.base(space)[i] = pattern(space, i);
    }
  }
}

TEST(Arena, OnlyItsOwnBytesMayBeTouched) {
  Arena arena;
  for (int64_t bytes : {64, 4096, 8192, 20'000}) {
    arena.reserve(Space::device, bytes);
    std::memset(arena.base(Space::device), 1, size_t(bytes));
#ifdef __SANITIZE_ADDRESS__
    ASSERT_TRUE(__asan_address_is_poisoned(arena.base(Space::device) + bytes)) << bytes;
#endif
  }
}

TEST(Arena, ACanaryShowsTheHighestByteWritten) {
  Arena arena;
  arena.reserve(Space::device, 10'000);
  arena.fill_canary(Space::device, 128);
  EXPECT_EQ(arena.touched(Space::device, 128), 128);
  arena.base(Space::device)[3000] = std::byte{1};
  EXPECT_EQ(arena.touched(Space::device, 128), align_up(3001));
}

TEST(Arena, SaysWhyThereAreNoMoreBytes) {
  constexpr int64_t kTooMuch = int64_t{1} << 60;
  EXPECT_THROW(Arena().reserve(Space::device, kTooMuch), BudgetError);
  Arena arena;
  arena.reserve(Space::device, 64);
  arena.base(Space::device)[63] = std::byte{42};
  try {
    arena.reserve(Space::device, kTooMuch);
    ADD_FAILURE() << "it has";
  } catch (const Error& error) {  // pages do not move to where there are no addresses
    EXPECT_EQ(error.exit_code, kExitFailed);
    EXPECT_NE(std::string(error.what()).find("Invalid argument"), std::string::npos);
  }
  EXPECT_EQ(arena.bytes(Space::device), 64) << "and is as it was";
  EXPECT_EQ(arena.base(Space::device)[63], std::byte{42});
}

}  // namespace
}  // namespace pal::test
