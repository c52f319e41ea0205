// Philox against the published test vectors, and what dropout masks rest on.
#include <gtest/gtest.h>

#include <vector>

#include "core/parallel.h"
#include "core/philox.h"

namespace pal {
namespace {

// kat_vectors of Random123 (Salmon et al. 2011), philox4x32 with 10 rounds.
TEST(Philox, PublishedVectors) {
  struct Case {
    uint32_t counter[4], key[2], out[4];
  };
  const Case cases[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                         {0xffffffff, 0xffffffff},
                         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                         {0xa4093822, 0x299f31d0},
                         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Case& c : cases) {
    const Philox4 out =
        philox({{c.counter[0], c.counter[1], c.counter[2], c.counter[3]}}, c.key[0], c.key[1]);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out.x[i], c.out[i]);
  }
}

TEST(Philox, EveryPartOfTheKeyCounts) {
  const RandomKey key{7, 1, 2, 3};
  const uint32_t first = draw(key, 0).x[0];
  for (RandomKey other : {RandomKey{8, 1, 2, 3}, RandomKey{7 + (1ull << 32), 1, 2, 3},
                          RandomKey{7, 2, 2, 3}, RandomKey{7, 1, 3, 3}, RandomKey{7, 1, 2, 4}}) {
    EXPECT_NE(draw(other, 0).x[0], first);
  }
  EXPECT_EQ(draw(key, 0).x[0], first);
  EXPECT_LT(uniform01(0xffffffffu), 1.0f);
}

TEST(Parallel, ChunksDependOnNothingButTheSize) {
  auto borders = [](int workers) {
    std::vector<int64_t> ends(8, -1);
    parallel_chunks({kComputeQueue, workers}, 1000, 150,
                    [&](int64_t begin, int64_t end) { ends[size_t(begin / 150)] = end; });
    return ends;
  };
  EXPECT_EQ(borders(1), borders(3));
  EXPECT_EQ(borders(1), (std::vector<int64_t>{150, 300, 450, 600, 750, 900, 1000, -1}));
}

}  // namespace
}  // namespace pal
