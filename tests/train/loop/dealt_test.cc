// Work that ranks deal out: every item has one owner, and all have all of it in the end.
#include "train/loop/dealt.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/thread_group.h"

namespace pal {
namespace {

TEST(Dealt, AloneAllIsItsOwn) {
  const Dealt alone;
  std::vector<int> items{1, 2, 3};
  std::vector<std::string> texts{"a", "", "c"};
  for (int64_t i = 0; i < 3; ++i) EXPECT_TRUE(alone.owns(i));
  alone.complete(items), alone.complete(texts);
  EXPECT_EQ(items, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "", "c"}));
  EXPECT_EQ(alone.total(7), 7);
}

TEST(Dealt, EachItemHasAnOwnerAndComesToAll) {
  for (const int ranks : {2, 3, 4}) {
    for (const int64_t count : {0, 1, 2, 7}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(count) + " items");
      std::atomic<int64_t> owned{0};
      test::as_ranks(ranks, [&](std::shared_ptr<Group> group) {
        const Dealt dealt(group);
        std::vector<int64_t> items(size_t(count), -group->rank() - 1), whole;
        std::vector<std::string> texts(static_cast<size_t>(count)), all;
        int64_t own = 0;
        for (int64_t i = 0; i < count; ++i) {
          const std::string text = i % 3 == 1 ? "" : std::string(size_t(5 * i + 1), char('a' + i));
          whole.push_back(i * i), all.push_back(text);
          if (!dealt.owns(i)) continue;
          items[size_t(i)] = i * i, texts[size_t(i)] = text;
          ++own;
        }
        dealt.complete(items), dealt.complete(texts);
        EXPECT_EQ(items, whole);
        EXPECT_EQ(texts, all);
        EXPECT_EQ(dealt.total(own), count);
        owned += own;
      });
      EXPECT_EQ(owned, count);
    }
  }
}

// One that is told to stop begins nothing more, and all learn of it.
TEST(Dealt, StopsOnAllWhereOneIsTold) {
  std::atomic<int> done{0}, stopped{0};
  test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
    int asked = 0;
    const Dealt dealt(group, [&] { return group->rank() == 1 && ++asked > 2; });
    std::vector<int> items(10);
    for (int64_t i = 0; i < 10; ++i) done += dealt.owns(i);
    try {
      dealt.complete(items);
    } catch (const Interrupted&) {
      ++stopped;
    }
  });
  EXPECT_EQ(done, 5 + 2);
  EXPECT_EQ(stopped, 2);
}

}  // namespace
}  // namespace pal
