// Pages that come and go at one place.
#include "memory/run/committed_pages.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"

namespace pal::test {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(CommittedPages, ADropReturnsBytesAndKeepsTheRest) {
  CommittedPages pages;
  pages.commit(8 * kMiB, 32 * kMiB);
  std::memset(pages.base(), 7, size_t(8 * kMiB));
  EXPECT_EQ(pages.resident(), 8 * kMiB);
  std::byte* const base = pages.base();
  pages.commit(2 * kMiB);
  EXPECT_EQ(pages.resident(), 2 * kMiB);
  EXPECT_EQ(base[2 * kMiB - 1], std::byte{7});
  pages.commit(32 * kMiB);  // what is there again is zero, and takes no memory yet
  EXPECT_EQ(pages.base(), base);
  EXPECT_EQ(pages.resident(), 2 * kMiB);
  EXPECT_EQ(base[2 * kMiB], std::byte{0});
  EXPECT_EQ(base[32 * kMiB - 1], std::byte{0});
  EXPECT_EQ(base[kMiB], std::byte{7});
}

TEST(CommittedPages, BeyondItsAddressesItMovesWithWhatItHolds) {
  CommittedPages pages;
  pages.commit(100, 5000);
  std::memset(pages.base(), 7, 100);
  pages.commit(64 * kMiB);
  EXPECT_EQ(pages.base()[99], std::byte{7});
  EXPECT_EQ(pages.base()[64 * kMiB - 1], std::byte{0});
}

TEST(CommittedPagesDeathTest, WhatWasGivenUpCannotBeTouched) {
  CommittedPages pages;
  pages.commit(8 * kMiB);
  pages.commit(2 * kMiB);
  EXPECT_DEATH(std::memset(pages.base() + 2 * kMiB, 7, 1), "");
}

TEST(CommittedPages, MoreThanTheMachineHasIsRefused) {
  CommittedPages pages;
  EXPECT_THROW(pages.commit(int64_t(1) << 50), BudgetError);
}

}  // namespace
}  // namespace pal::test
