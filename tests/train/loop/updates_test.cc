// An update's micro-batches: which rank runs which, and how their sums become one.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "tests/train/loop/rank_runs.h"
#include "train/loop/micro_batch.h"

namespace pal::test {
namespace {

TEST(Updates, AreDividedAlongATree) {
  TrainConfig config;
  config.accumulate = 6, config.reduction = "ordered";
  EXPECT_EQ(possible_ranks(6, true), (std::vector<int64_t>{1, 3, 6}));
  EXPECT_EQ(possible_ranks(6, false), (std::vector<int64_t>{1, 2, 3, 6}));
  EXPECT_NO_THROW(check_ranks(config, 3));
  try {
    check_ranks(config, 2);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("start 1, 3, 6 ranks"), std::string::npos)
        << error.what();
  }
}

// The sums that are there when a micro-batch is done: those of the bits of its number.
TEST(Updates, CountInBinary) {
  for (int64_t n = 1; n <= 64; ++n) {
    TrainConfig config;
    config.accumulate = n, config.reduction = "ordered";
    const Update update(config, 1);
    std::vector<int64_t> sums(8, 0);  // by accumulator: micro-batches in it
    const std::vector<MicroBatch> kinds = update.kinds();
    for (int64_t i = 0; i < n; ++i) {
      const MicroBatch kind = update.kind(i);
      EXPECT_NE(std::find(kinds.begin(), kinds.end(), kind), kinds.end()) << i << " of " << n;
      int64_t sum = 1;
      for (size_t level = 0; level < sums.size(); ++level) {
        if (!(kind.adds >> level & 1)) continue;
        EXPECT_EQ(sums[level], int64_t(1) << level) << i << " of " << n;
        sum += std::exchange(sums[level], 0);
      }
      EXPECT_EQ(kind.updates(), i + 1 == n);
      if (kind.updates()) {
        EXPECT_EQ(sum, n);
      } else {
        ASSERT_LT(kind.stores, update.accumulators());
        EXPECT_EQ(sums[size_t(kind.stores)], 0);
        EXPECT_EQ(sum, int64_t(1) << kind.stores);
        sums[size_t(kind.stores)] = sum;
      }
    }
  }
}

TEST(Updates, NullIsOneMicroBatchARank) {
  Config config =
      parse_config(kTranslator, "test.yaml",
                   {parse_set("train.accumulate=null"), parse_set("train.reduction=null")});
  const Config four = with_ranks(config, 4);
  EXPECT_EQ(**four.train.accumulate, 4);
  EXPECT_EQ(**four.train.reduction, "ordered");
  const Config one = with_ranks(config, 1);
  EXPECT_EQ(**one.train.accumulate, 1);
  EXPECT_EQ(**one.train.reduction, "library");
  const Config again = with_ranks(config, 2, &four);  // goes on as it began
  EXPECT_EQ(**again.train.accumulate, 4);
  EXPECT_EQ(**again.train.reduction, "ordered");
}

}  // namespace
}  // namespace pal::test
