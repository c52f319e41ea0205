// Joined buffers: no byte more at any moment than they may take, and a placement of the blocks is
// one of the buffers.
#include "memory/place/join.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "memory/place/place.h"
#include "tests/support/lifetimes.h"

namespace pal {
namespace {

TEST(JoinBuffers, ThoseOfOneLifeAreOne) {
  const std::vector<Buffer> buffers{{0, 9, 64}, {3, 5, 640}, {0, 9, 192}, {0, 9, 128}};
  const JoinedBuffers joined = join_buffers(buffers, 1, 1024);
  EXPECT_EQ(joined.blocks, (std::vector<Buffer>{{0, 3, 384}, {1, 2, 640}}));  // 0 3 5 9 as ranks
  EXPECT_EQ(joined.block, (std::vector<int32_t>{0, 1, 0, 0}));
  EXPECT_EQ(joined.inside, (std::vector<int64_t>{0, 0, 192, 64}));
  EXPECT_EQ(joined.offsets(std::vector<int64_t>{640, 0}), (std::vector<int64_t>{640, 0, 832, 704}));
}

TEST(JoinBuffers, OnlyOfOneCellOfTheGrid) {
  const std::vector<Buffer> buffers{{0, 2, 64}, {1, 3, 128}};
  EXPECT_EQ(join_buffers(buffers, 1, 1024).blocks.size(), 2u);
  EXPECT_EQ(join_buffers(buffers, 4, 1024).blocks, (std::vector<Buffer>{{0, 3, 192}}));
}

TEST(JoinBuffers, OneAfterAnotherShareAPlace) {
  const std::vector<Buffer> buffers{{0, 1, 64}, {1, 2, 64}, {3, 4, 64}, {0, 5, 128}, {2, 3, 32}};
  const JoinedBuffers joined = join_buffers(buffers, 1, 192);
  EXPECT_EQ(joined.block[0], joined.block[1]);
  EXPECT_EQ(joined.inside[1], 0);
  EXPECT_NE(joined.block[1], joined.block[2]) << "no room for it while the last is alive";
  EXPECT_EQ(join_buffers(buffers, 1, 224).block[2], joined.block[0]);
}

TEST(JoinBuffers, RoomIsTakenOnce) {
  // Either size could wait for its second buffer beside the large one, but not both.
  const std::vector<Buffer> buffers{{0, 2, 64}, {1, 2, 32}, {2, 3, 512}, {3, 5, 64}, {3, 4, 32}};
  const JoinedBuffers joined = join_buffers(buffers, 1, 512 + 64 + 16);
  EXPECT_NE(joined.block[0] == joined.block[3], joined.block[1] == joined.block[4]);
}

TEST(JoinBuffers, EmptyOnesAreInNone) {
  const std::vector<Buffer> buffers{{3, 3, 64}, {0, 9, 0}, {0, 9, 64}};
  const JoinedBuffers joined = join_buffers(buffers, 4, 64);
  EXPECT_EQ(joined.block, (std::vector<int32_t>{-1, -1, 0}));
  EXPECT_EQ(joined.offsets(std::vector<int64_t>{128}), (std::vector<int64_t>{0, 0, 128}));
}

TEST(JoinBuffers, TakeNoMoreThanTheyMay) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto buffers = test::training_lifetimes(seed, 600, {.chopped = seed % 2 == 0});
    const int64_t bound = lower_bound_of(buffers);
    size_t before = buffers.size();
    for (int64_t grid : {1, 4, 16}) {
      const JoinedBuffers joined = join_buffers(buffers, grid, bound);
      EXPECT_EQ(lower_bound_of(joined.blocks), bound) << "seed " << seed << ", grid " << grid;
      const Placement p = place(joined.blocks, {.effort = {.nodes = 0}});
      const std::vector<int64_t> offset = joined.offsets(p.offset);
      check_placement(buffers, offset);
      int64_t height = 0;
      for (size_t i = 0; i < buffers.size(); ++i)
        height = std::max(height, offset[i] + buffers[i].size);
      EXPECT_EQ(height, p.height);
      EXPECT_LT(joined.blocks.size(), before) << "seed " << seed << ", grid " << grid;
      before = joined.blocks.size();
    }
    EXPECT_GT(join_buffers(buffers, 64, bound * 9 / 10).blocks.size(),
              join_buffers(buffers, 64, bound).blocks.size());
  }
}

TEST(CoarserProblems, AreTheSameBuffersInFewerBlocks) {
  for (size_t n : {900, 16000}) {  // the latter are joined from blocks
    const auto buffers = test::training_lifetimes(1, n, {.chopped = true});
    const int64_t bound = lower_bound_of(buffers);
    CoarserProblems problems(buffers, bound);
    const size_t most = n / 3;
    std::vector<Buffer> last;
    size_t first = 0, fewest = most;
    int count = 0;
    for (; problems.next(most); ++count) {
      const JoinedBuffers& joined = problems.joined();
      EXPECT_LE(joined.blocks.size(), most);
      EXPECT_NE(joined.blocks, last);
      last = joined.blocks;
      if (count == 0) first = last.size();
      fewest = std::min(fewest, last.size());
      EXPECT_EQ(lower_bound_of(joined.blocks), bound);
      check_placement(buffers,
                      joined.offsets(place(joined.blocks, {.effort = {.nodes = 0}}).offset));
      EXPECT_GT(problems.take_work(), 0);
      EXPECT_EQ(problems.take_work(), 0);
    }
    EXPECT_GE(count, 3) << n << " buffers";
    EXPECT_LT(fewest, first) << n << " buffers";
  }
}

// A grid twice as coarse has half as many blocks here: one that has more than half as many as may
// be is there to be found.
TEST(CoarserProblems, AreNoCoarserThanTheyNeedBe) {
  for (const int64_t n : {1009, 2003}) {
    std::vector<Buffer> staircase;
    for (int64_t i = 0; i < n; ++i) staircase.push_back({i, n + i, 64});
    for (const size_t most : {50, 60, 70, 80, 100, 120}) {
      CoarserProblems problems(staircase, 2 * lower_bound_of(staircase));
      ASSERT_TRUE(problems.next(most));
      EXPECT_LE(problems.joined().blocks.size(), most);
      EXPECT_GT(problems.joined().blocks.size(), most / 2) << n << " buffers";
    }
  }
}

// Where so many blocks are allowed, all buffers are joined twice: finely, then on a coarser grid.
TEST(CoarserProblems, EightBuffersCountAsANodeEachTimeTheyAreJoined) {
  for (const int64_t n : {800, 8000}) {
    std::vector<Buffer> staircase;
    for (int64_t i = 0; i < n; ++i) staircase.push_back({i, n + i, 64});
    CoarserProblems problems(staircase, 2 * lower_bound_of(staircase));
    ASSERT_TRUE(problems.next(size_t(n)));
    EXPECT_NEAR(double(problems.take_work()), 2 * double(n) / 8, 3);
  }
}

TEST(CoarserProblems, ThereIsNoneWithoutRoom) {
  std::vector<Buffer> buffers;
  for (int64_t i = 0; i < 200; ++i) buffers.push_back({i, 200 + i, 64 + i});
  EXPECT_TRUE(CoarserProblems(buffers, lower_bound_of(buffers)).next(20));
  EXPECT_FALSE(CoarserProblems(buffers, 0).next(20)) << "no room";
  EXPECT_FALSE(CoarserProblems({}, 0).next(20));
}

// Too many for a search, and above the bound in every first-fit order (rounds would place them).
TEST(Place, ManyBuffersComeToTheBoundJoined) {
  const auto buffers = test::training_lifetimes(2, 8000, {.chopped = true});
  EXPECT_GT(place(buffers, {.effort = {.rounds = 0, .nodes = 0}}).height, lower_bound_of(buffers));
  const Placement p = place(buffers, {.effort = {.rounds = 0}});
  check_placement(buffers, p.offset);
  EXPECT_EQ(p.height, p.lower_bound);
  EXPECT_STREQ(p.order, "joined");
}

}  // namespace
}  // namespace pal
