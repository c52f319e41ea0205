// Iterators: every pair once an epoch, a fixed order, exact resumption; and the prefetch thread.
#include "data/iterator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "core/error.h"
#include "data/prefetch.h"

namespace pal {
namespace {

EncodedText some_text(int pairs) {
  EncodedText text;
  for (int i = 0; i < pairs; ++i) {
    const size_t length = static_cast<size_t>(1 + (i * 7) % 9);
    text.add(std::vector<int32_t>(length, 10 + i), std::vector<int32_t>(length, 10 + i));
  }
  return text;
}

const BucketLadder kLadder{4, {{3, 4}, {6, 7}, {9, 10}}};

TEST(Shuffle, IsTheSameOnEveryPlatform) {
  std::vector<int32_t> items(10);
  std::iota(items.begin(), items.end(), 0);
  shuffle(items, 42, 7);
  const std::vector<int32_t> fixed = {5, 3, 6, 1, 0, 2, 9, 7, 4, 8};
  EXPECT_EQ(items, fixed);
}

TEST(Shuffle, IsFair) {
  std::map<std::vector<int32_t>, int> seen;
  for (uint64_t stream = 0; stream < 24000; ++stream) {
    std::vector<int32_t> items = {0, 1, 2, 3};
    shuffle(items, 5, stream);
    ++seen[items];
  }
  EXPECT_EQ(seen.size(), 24u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 160);  // 5 sigma
}

TEST(TrainIterator, EveryPairOnceAnEpochAndInAnotherOrder) {
  const EncodedText text = some_text(50);
  TrainIterator iterator(text, kLadder, 1);
  std::vector<std::vector<int32_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> order;
    std::vector<int> buckets;
    for (int64_t i = 0; i < iterator.batches_per_epoch(); ++i) {
      TextBatch batch;
      EXPECT_EQ(iterator.state(), (IteratorState{epoch, i}));
      ASSERT_TRUE(iterator.next(batch));
      EXPECT_EQ(batch.position, (IteratorState{epoch, i}));
      EXPECT_EQ(batch.resume, iterator.state());
      for (int row = 0; row < batch.sentences; ++row) {
        const int32_t pair = batch.rows[static_cast<size_t>(row)];
        EXPECT_EQ(kLadder.find(text.length(pair)), batch.bucket);
        order.push_back(pair);
      }
      buckets.push_back(batch.bucket);
    }
    EXPECT_FALSE(std::is_sorted(buckets.begin(), buckets.end()));  // mixed across buckets
    orders.push_back(order);
    std::sort(order.begin(), order.end());
    std::vector<int32_t> all(50);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
  EXPECT_EQ(iterator.state(), (IteratorState{3, 0}));
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(TrainIterator, ResumesExactlyAnywhere) {
  const EncodedText text = some_text(50);
  TrainIterator whole(text, kLadder, 9), other_seed(text, kLadder, 10);
  std::vector<TextBatch> batches(static_cast<size_t>(3 * whole.batches_per_epoch()));
  for (TextBatch& batch : batches) whole.next(batch);
  for (size_t at = 0; at + 1 < batches.size(); ++at) {
    TrainIterator again(text, kLadder, 9);
    TextBatch batch;
    if (at % 2) again.next(batch);  // a used iterator resumes as well as a fresh one
    again.restore(batches[at].resume);
    for (size_t next = at + 1; next < batches.size(); ++next) {
      again.next(batch);
      ASSERT_EQ(batch.rows, batches[next].rows);
      ASSERT_EQ(batch.source, batches[next].source);
      ASSERT_EQ(batch.bucket, batches[next].bucket);
    }
  }
  TextBatch batch;
  std::vector<int32_t> ours, others;
  for (int64_t i = 0; i < other_seed.batches_per_epoch(); ++i) {
    other_seed.next(batch);
    others.insert(others.end(), batch.rows.begin(), batch.rows.end());
    const std::vector<int32_t>& rows = batches[static_cast<size_t>(i)].rows;
    ours.insert(ours.end(), rows.begin(), rows.end());
  }
  EXPECT_NE(ours, others);
}

TEST(TrainIterator, BucketsWithRowsOfTheirOwn) {
  const EncodedText text = some_text(100);
  const BucketLadder ladder{0, {{3, 4, 7}, {6, 7, 4}, {9, 10, 3}}};
  TrainIterator iterator(text, ladder, 1);
  EXPECT_EQ(iterator.batches_per_epoch(), report_ladder(text.lengths(), ladder).batches);
  std::vector<int32_t> seen;
  TextBatch batch;
  for (int64_t i = 0; i < iterator.batches_per_epoch(); ++i) {
    iterator.next(batch);
    EXPECT_EQ(batch.B, ladder.rows(batch.bucket));
    EXPECT_LE(batch.sentences, batch.B);
    EXPECT_EQ(batch.source.size(), static_cast<size_t>(batch.S * batch.B));
    seen.insert(seen.end(), batch.rows.begin(), batch.rows.begin() + batch.sentences);
  }
  std::sort(seen.begin(), seen.end());
  std::vector<int32_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
  for (const auto order : {ValidIterator::Order::corpus, ValidIterator::Order::bucket}) {
    ValidIterator valid(text, ladder, order);
    seen.clear();
    while (valid.next(batch)) {
      EXPECT_LE(batch.sentences, ladder.rows(batch.bucket));
      seen.insert(seen.end(), batch.rows.begin(), batch.rows.begin() + batch.sentences);
    }
    EXPECT_EQ(std::is_sorted(seen.begin(), seen.end()), order == ValidIterator::Order::corpus);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, all);
  }
}

TEST(ValidIterator, ALongPairEndsABatchOfMoreRowsThanItsBucketHas) {
  EncodedText text;
  for (const size_t length : {1, 1, 1, 1, 1, 8, 1, 1}) {
    text.add(std::vector<int32_t>(length, 10), std::vector<int32_t>(length, 10));
  }
  const BucketLadder ladder{0, {{3, 4, 7}, {9, 10, 3}}};
  ValidIterator valid(text, ladder);
  TextBatch batch;
  std::vector<int> sentences;
  while (valid.next(batch)) sentences.push_back(batch.sentences);
  EXPECT_EQ(sentences, (std::vector<int>{5, 3}));
}

TEST(TrainIterator, LeavesOutWhatDoesNotFit) {
  EncodedText text = some_text(10);
  text.add(std::vector<int32_t>(20, 1), std::vector<int32_t>(2, 1));
  text.add({}, std::vector<int32_t>(2, 1));
  text.add(std::vector<int32_t>(2, 1), {});
  TrainIterator iterator(text, kLadder, 1);
  TextBatch batch;
  int sentences = 0;
  for (int64_t i = 0; i < iterator.batches_per_epoch(); ++i) {
    iterator.next(batch);
    sentences += batch.sentences;
  }
  EXPECT_EQ(sentences, 10);
  EXPECT_EQ(iterator.batches_per_epoch(), report_ladder(text.lengths(), kLadder).batches);
  EXPECT_THROW(iterator.restore({0, iterator.batches_per_epoch()}), UsageError);
  EXPECT_THROW(iterator.restore({-1, 0}), UsageError);
  EXPECT_THROW(TrainIterator(EncodedText{}, kLadder, 1), UsageError);
}

TEST(ValidIterator, CorpusOrderWithNothingLeftOut) {
  EncodedText text = some_text(21);
  text.add(std::vector<int32_t>(20, 1), std::vector<int32_t>(2, 1));  // cut
  text.add(std::vector<int32_t>(2, 1), {});                           // nothing to say
  for (const auto order : {ValidIterator::Order::corpus, ValidIterator::Order::bucket}) {
    ValidIterator iterator(text, kLadder, order);
    EXPECT_EQ(iterator.truncated(), 1);
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<int32_t> rows;
      TextBatch batch;
      while (iterator.next(batch)) {
        rows.insert(rows.end(), batch.rows.begin(), batch.rows.begin() + batch.sentences);
        for (int row = 0; row < batch.sentences; ++row) {
          const PairLength length = text.length(batch.rows[static_cast<size_t>(row)]);
          EXPECT_LE(std::min(length.source, 9), batch.S);
          EXPECT_LE(length.target, batch.T);
          if (order == ValidIterator::Order::bucket && length.source <= 9) {
            EXPECT_EQ(kLadder.find(length), batch.bucket);
          }
        }
      }
      EXPECT_EQ(std::is_sorted(rows.begin(), rows.end()), order == ValidIterator::Order::corpus);
      std::sort(rows.begin(), rows.end());
      std::vector<int32_t> all(23);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(rows, all);
      iterator.rewind();
    }
  }
}

TEST(Prefetch, SameBatchesAndTheConsumedPosition) {
  const EncodedText text = some_text(50);
  TrainIterator direct(text, kLadder, 3), behind(text, kLadder, 3);
  Prefetch<TextBatch> prefetch([&](TextBatch& batch) { return behind.next(batch); }, 3);
  TextBatch expected, batch;
  for (int i = 0; i < 100; ++i) {
    direct.next(expected);
    ASSERT_TRUE(prefetch.next(batch));
    ASSERT_EQ(batch.rows, expected.rows);
    ASSERT_EQ(batch.source, expected.source);
    ASSERT_EQ(batch.resume, direct.state());  // not what the thread has reached meanwhile
  }
}

TEST(Prefetch, EndsAndStaysEnded) {
  int made = 0;
  Prefetch<int> prefetch(
      [&](int& item) {
        item = made;
        return made++ < 5;
      },
      2);
  int item = -1;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(prefetch.next(item));
    EXPECT_EQ(item, i);
  }
  EXPECT_FALSE(prefetch.next(item));
  EXPECT_FALSE(prefetch.next(item));
}

TEST(Prefetch, ThrowsAtTheConsumerAfterTheItemsBefore) {
  int made = 0;
  Prefetch<int> prefetch([&](int& item) {
    if (made == 2) throw UsageError("line 3 is bad");
    item = made++;
    return true;
  });
  int item = -1;
  EXPECT_TRUE(prefetch.next(item));
  EXPECT_TRUE(prefetch.next(item));
  EXPECT_EQ(item, 1);
  for (int again = 0; again < 2; ++again) {
    try {
      prefetch.next(item);
      FAIL();
    } catch (const UsageError& error) {
      EXPECT_STREQ(error.what(), "line 3 is bad");
    }
  }
}

TEST(Prefetch, MayBeDestroyedAtAnyMoment) {
  for (int taken = 0; taken < 40; ++taken) {
    std::atomic<int> made = 0;
    {
      Prefetch<std::vector<int>> prefetch(
          [&](std::vector<int>& item) {
            item.assign(100, made++);
            return true;
          },
          1 + taken % 3);
      std::vector<int> item;
      for (int i = 0; i < taken % 7; ++i) {
        ASSERT_TRUE(prefetch.next(item));
        ASSERT_EQ(item[99], i);
      }
    }
    const int after = made;
    EXPECT_LE(after, taken % 7 + 1 + taken % 3);  // never further ahead than the depth
  }
}

TEST(Prefetch, BuffersCirculate) {
  const EncodedText text = some_text(200);
  TrainIterator iterator(text, kLadder, 3);
  Prefetch<TextBatch> prefetch([&](TextBatch& batch) { return iterator.next(batch); }, 2);
  TextBatch batch;
  std::map<const int32_t*, int> buffers;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(prefetch.next(batch));
    ++buffers[batch.source.data()];
  }
  EXPECT_LE(buffers.size(), 3u);  // two slots and the consumer's own
}

// Ranks that share the batches of updates see each once, in the same places, over epochs; and say
// the same of where they stand.
TEST(TrainIterator, SharesBatches) {
  const EncodedText text = some_text(37);
  for (const auto& [ranks, of] : {std::pair{2, 4}, {4, 4}, {3, 6}, {2, 10}}) {
    TrainIterator whole(text, kLadder, 5);
    whole.restore({1, 2});
    std::vector<TrainIterator> parts;
    for (int r = 0; r < ranks; ++r) {
      parts.emplace_back(text, kLadder, 5).restore({1, 2});
      parts.back().take_share({r * of / ranks, of / ranks, of});
    }
    for (int update = 0; update < 9; ++update) {
      std::vector<std::vector<int32_t>> rows;
      TextBatch batch;
      for (int i = 0; i < of; ++i) whole.next(batch), rows.push_back(batch.rows);
      const IteratorState resume = batch.resume;
      for (int r = 0; r < ranks; ++r) {
        for (int i = 0; i < of / ranks; ++i) {
          parts[size_t(r)].next(batch);
          EXPECT_EQ(batch.rows, rows[size_t(r * of / ranks + i)]);
        }
        EXPECT_EQ(batch.resume, resume) << "rank " << r << " of " << ranks;
      }
    }
  }
}

TEST(BatchShare, CountsOthersToo) {
  const BatchShare share{2, 2, 6};
  const int64_t numbers[] = {2, 3, 8, 9}, done[] = {0, 3, 6, 9, 12};
  for (int64_t n = 0; n < 4; ++n) EXPECT_EQ(share.number(n), numbers[n]);
  for (int64_t n = 0; n < 5; ++n) EXPECT_EQ(share.done(n), done[n]);
  EXPECT_EQ(BatchShare().number(7), 7);
  EXPECT_EQ(BatchShare().done(7), 7);
}

}  // namespace
}  // namespace pal
