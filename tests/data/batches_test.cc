// The bucket ladder against brute force, and batches cell by cell.
#include "data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "data/speech_batches.h"

namespace pal {
namespace {

// Repeatable lengths without a library: a small linear congruence.
std::vector<PairLength> some_lengths(int count, int most, uint32_t seed) {
  std::vector<PairLength> lengths;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const int source = 1 + static_cast<int>((seed >> 8) % static_cast<uint32_t>(most));
    const int target = source + static_cast<int>((seed >> 24) % 5u) - 2;
    lengths.push_back({source, std::clamp(target, 2, most)});
  }
  return lengths;
}

// All nested ladders of at most `left` buckets above (source, target), by exhaustion.
int64_t fewest_cells(const std::vector<PairLength>& lengths, BucketLadder& ladder, Bucket top,
                     int left) {
  ladder.buckets.push_back(top);
  int64_t best = report_ladder(lengths, ladder).cells;
  ladder.buckets.pop_back();
  const Bucket below = ladder.buckets.empty() ? Bucket{1, 2} : ladder.buckets.back();
  for (int source = below.source; left > 1 && source <= top.source; ++source) {
    for (int target = below.target; target <= top.target; ++target) {
      ladder.buckets.push_back({source, target});
      best = std::min(best, fewest_cells(lengths, ladder, top, left - 1));
      ladder.buckets.pop_back();
    }
  }
  return best;
}

TEST(Buckets, FewestCellsOfAllLadders) {
  for (const int batch : {1, 3, 8}) {
    for (uint32_t seed = 1; seed <= 8; ++seed) {
      const std::vector<PairLength> lengths = some_lengths(25, 6, seed);
      for (int most = 1; most <= 3; ++most) {
        const BucketLadder ours = choose_buckets(lengths, batch, 6, most);
        Bucket top;
        for (const PairLength& each : lengths) {
          top = {std::max(top.source, each.source), std::max(top.target, each.target)};
        }
        BucketLadder empty{batch, {}};
        EXPECT_LE(static_cast<int>(ours.buckets.size()), most);
        EXPECT_EQ(ours.largest(), top);
        EXPECT_EQ(report_ladder(lengths, ours).cells, fewest_cells(lengths, empty, top, most))
            << ours.print();
      }
    }
  }
}

// Of pairs that are long on one side alone buckets are as long on that side.
TEST(Buckets, FewestCellsWhereOneSideIsAlwaysAsLong) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    std::vector<PairLength> targets = some_lengths(25, 6, seed), sources = targets;
    for (PairLength& each : targets) each.source = 5;
    for (PairLength& each : sources) each.target = 5;
    for (const std::vector<PairLength>& lengths : {targets, sources}) {
      Bucket top;
      for (const PairLength& each : lengths) {
        top = {std::max(top.source, each.source), std::max(top.target, each.target)};
      }
      const BucketLadder ours = choose_buckets(lengths, 3, 6, 3);
      BucketLadder empty{3, {}};
      EXPECT_GT(ours.buckets.size(), 1u);
      EXPECT_EQ(report_ladder(lengths, ours).cells, fewest_cells(lengths, empty, top, 3))
          << ours.print();
    }
  }
}

TEST(Buckets, NestedCoveringAndBetterThanOne) {
  std::vector<PairLength> lengths = some_lengths(4000, 150, 7);  // coarser than the 64 cuts
  lengths.push_back({0, 5});
  lengths.push_back({5, 1});
  const BucketLadder ladder = choose_buckets(lengths, 16, 100);
  ASSERT_LE(ladder.buckets.size(), 12u);
  for (size_t i = 1; i < ladder.buckets.size(); ++i) {
    EXPECT_GE(ladder.buckets[i].source, ladder.buckets[i - 1].source);
    EXPECT_GE(ladder.buckets[i].target, ladder.buckets[i - 1].target);
    EXPECT_NE(ladder.buckets[i], ladder.buckets[i - 1]);
  }
  const LadderReport report = report_ladder(lengths, ladder);
  const int64_t fitting = std::count_if(lengths.begin(), lengths.end(), [](PairLength each) {
    return each.source >= 1 && each.target >= 2 && each.source <= 100 && each.target <= 100;
  });
  EXPECT_EQ(report.pairs, fitting);  // every pair within the maximum has a bucket
  EXPECT_EQ(report.dropped_empty, 2);
  EXPECT_EQ(report.dropped_long, static_cast<int64_t>(lengths.size()) - 2 - fitting);
  EXPECT_GT(report.dropped_long, 0);
  const int64_t single = report_ladder(lengths, choose_buckets(lengths, 16, 100, 1)).cells;
  EXPECT_LT(static_cast<double>(report.cells), 0.65 * static_cast<double>(single));
  EXPECT_GE(report.cells, report.tokens);
}

TEST(Buckets, WidthsAsSockeye) {
  const std::vector<PairLength> even = {{10, 11}};  // ratio 1: words without </s>
  const BucketLadder ladder = width_buckets(even, 64, 100, 10);
  ASSERT_EQ(ladder.buckets.size(), 10u);
  EXPECT_EQ(ladder.buckets[0], (Bucket{10, 10}));
  EXPECT_EQ(ladder.largest(), (Bucket{100, 100}));
  const std::vector<PairLength> longer = {{10, 13}};  // ratio 1.2: source steps of 8
  const BucketLadder wide = width_buckets(longer, 64, 50, 10);
  EXPECT_EQ(
      wide.buckets,
      (std::vector<Bucket>{{8, 10}, {16, 20}, {24, 30}, {32, 40}, {40, 50}, {48, 50}, {50, 50}}));
  const std::vector<PairLength> shorter = {{10, 6}};  // ratio 0.5: target steps of 5
  EXPECT_EQ(width_buckets(shorter, 64, 20, 10).buckets,
            (std::vector<Bucket>{{10, 5}, {20, 10}, {20, 15}, {20, 20}}));
  const std::vector<PairLength> short_ones = {{2, 3}};
  EXPECT_EQ(width_buckets(short_ones, 64, 4, 1).buckets,
            (std::vector<Bucket>{{2, 2}, {3, 3}, {4, 4}}));
  EXPECT_THROW(width_buckets(even, 64, 100, 0), UsageError);
}

// Width 10 up to 100 is ten buckets where both sides are as long; where the target is a quarter
// longer, its side is ten steps and the source's thirteen.
TEST(Buckets, WidthsBeyondTheMostAreJoinedWhereItPadsLeast) {
  std::vector<PairLength> lengths = {{97, 90}, {85, 95}};  // one in the last, one before
  for (int source = 1; source <= 80; ++source) {
    for (int copies = 0; copies < (source == 70 ? 1 : 5); ++copies) {
      lengths.push_back({source, source * 5 / 4 + 1});
    }
  }
  const BucketLadder all = width_buckets(lengths, 8, 100, 10, 12);
  const std::vector<Bucket> twelve = {{8, 10},  {16, 20},  {24, 30},  {32, 40},
                                      {40, 50}, {48, 60},  {56, 70},  {64, 80},
                                      {72, 90}, {80, 100}, {88, 100}, {100, 100}};
  EXPECT_EQ(all.buckets, twelve);  // nothing is in (96,100): it is the first to go
  const BucketLadder eleven = width_buckets(lengths, 8, 100, 10, 11);
  ASSERT_EQ(eleven.buckets.size(), 11u);
  // Next the one pair of (88,100) moves up, by 12 cells; any other rung would cost 18 for many.
  EXPECT_EQ(eleven.buckets[9], (Bucket{80, 100}));
  EXPECT_EQ(eleven.buckets[10], (Bucket{100, 100}));
  EXPECT_EQ(report_ladder(lengths, eleven).dropped_long, 5);  // 80 words and 101
  for (const BucketLadder& ladder : {width_buckets(lengths, 8, 100, 3), eleven}) {
    EXPECT_LE(ladder.buckets.size(), 12u);
    EXPECT_EQ(ladder.largest(), (Bucket{100, 100}));
    for (size_t i = 1; i < ladder.buckets.size(); ++i) {
      EXPECT_GE(ladder.buckets[i].source, ladder.buckets[i - 1].source);
      EXPECT_GE(ladder.buckets[i].target, ladder.buckets[i - 1].target);
    }
  }
}

int64_t cells_of(const std::vector<PairLength>& lengths, const BucketLadder& ladder) {
  int64_t cells = 0;
  for (const PairLength& each : lengths) {
    const Bucket& bucket = ladder.buckets.at(size_t(ladder.find(each)));
    cells += bucket.source + bucket.target;
  }
  return cells;
}

// One rung after the other goes, the one without which the pairs fill the fewest cells.
TEST(Buckets, WidthsAreJoinedOneByOne) {
  uint32_t state = 7;
  const auto below = [&](uint32_t n) {
    return int((state = state * 1664525u + 1013904223u) / 65536u % n);
  };
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<PairLength> lengths;
    for (int i = 0; i < 150; ++i) {
      const int source = 1 + below(turn % 2 ? 60 : 30);
      lengths.push_back(
          {source, std::clamp(source * (1 + turn % 3) / (1 + turn % 2) + below(9), 2, 60)});
    }
    BucketLadder want = width_buckets(lengths, 8, 60, 4, kMostBuckets);
    for (int most = int(want.buckets.size()) - 1; most > 0; --most) {
      BucketLadder fewest;
      for (size_t gone = 0; gone < size_t(most); ++gone) {
        BucketLadder without = want;
        without.buckets.erase(without.buckets.begin() + ptrdiff_t(gone));
        if (gone == 0 || cells_of(lengths, without) < cells_of(lengths, fewest)) fewest = without;
      }
      want = fewest;
      ASSERT_EQ(width_buckets(lengths, 8, 60, 4, most).buckets, want.buckets) << turn;
    }
  }
}

TEST(BatchSize, RowsThatFitTheWords) {
  const BatchSize words = BatchSize::of_words(400);
  EXPECT_EQ(words.rows(100, 20), 4);
  EXPECT_EQ(words.rows(20, 100), 4);
  EXPECT_EQ(words.rows(50, 50), 8);
  EXPECT_EQ(words.rows(49, 50), 8);
  EXPECT_EQ(words.rows(25, 3), 16);
  EXPECT_EQ(words.rows(24, 3), 16);  // 16.7: a multiple of 8
  EXPECT_EQ(words.rows(60, 3), 6);   // below 8 as it is
  EXPECT_EQ(words.rows(401, 3), 1);
  EXPECT_EQ(BatchSize(30).rows(401, 3), 30);
}

TEST(Buckets, EveryBucketHasTheRowsThatFitTheWords) {
  const std::vector<PairLength> lengths = some_lengths(4000, 60, 3);
  for (const BucketLadder& ladder : {choose_buckets(lengths, BatchSize::of_words(600), 60),
                                     width_buckets(lengths, BatchSize::of_words(600), 60, 5)}) {
    EXPECT_EQ(ladder.batch, 0);
    EXPECT_GT(ladder.buckets.size(), 3u);
    int64_t batches = 0, cells = 0;
    for (int i = 0; i < static_cast<int>(ladder.buckets.size()); ++i) {
      const Bucket& each = ladder.buckets[static_cast<size_t>(i)];
      const int longer = std::max(each.source, each.target), rows = ladder.rows(i);
      EXPECT_LE(rows * longer, 600);
      EXPECT_TRUE(rows < 8 || rows % 8 == 0) << rows;
      EXPECT_GT((rows + (rows < 8 ? 1 : 8)) * longer, 600) << "more would fit";
      const int64_t own = std::count_if(lengths.begin(), lengths.end(),
                                        [&](PairLength pair) { return ladder.find(pair) == i; });
      batches += (own + rows - 1) / rows;
      cells += (own + rows - 1) / rows * rows * (each.source + each.target);
    }
    const LadderReport report = report_ladder(lengths, ladder);
    EXPECT_EQ(report.batches, batches);
    EXPECT_EQ(report.cells, cells);
  }
  EXPECT_THROW(choose_buckets(lengths, BatchSize::of_words(59), 60), UsageError);
  EXPECT_EQ((BucketLadder{0, {{7, 8, 40}, {40, 40, 24}}}).print(), "(7,8)x40 (40,40)x24");
  EXPECT_EQ((BucketLadder{64, {{7, 8}, {40, 40}}}).print(), "64 rows; (7,8) (40,40)");
}

TEST(Buckets, FewestCellsWithWordsToo) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const std::vector<PairLength> lengths = some_lengths(40, 6, seed);
    const BucketLadder ours = choose_buckets(lengths, BatchSize::of_words(20), 6, 3);
    int64_t best = std::numeric_limits<int64_t>::max();
    const Bucket top = ours.largest();
    const auto bucket = [](int source, int target) {
      return Bucket{source, target, BatchSize::of_words(20).rows(source, target)};
    };
    for (int a = 1; a <= top.source; ++a) {
      for (int b = 1; b <= top.target; ++b) {
        for (int c = a; c <= top.source; ++c) {
          for (int d = b; d <= top.target; ++d) {
            const BucketLadder one{0, {bucket(a, b), bucket(c, d), bucket(top.source, top.target)}};
            best = std::min(best, report_ladder(lengths, one).cells);
          }
        }
      }
    }
    EXPECT_LE(report_ladder(lengths, ours).cells, best) << ours.print();
  }
}

TEST(Buckets, RefusesBadOptions) {
  const std::vector<PairLength> lengths = {{5, 5}};
  EXPECT_THROW(choose_buckets(lengths, 0, 10), UsageError);
  EXPECT_THROW(choose_buckets(lengths, 1, 1), UsageError);
  EXPECT_THROW(choose_buckets(lengths, 1, 10, 0), UsageError);
  EXPECT_THROW(choose_buckets(lengths, 1, 10, 13), UsageError);
  EXPECT_THROW(choose_buckets(lengths, 1, 4), UsageError);  // no pair left
  EXPECT_THROW(choose_buckets({}, 1, 10), UsageError);
}

TEST(Buckets, TheLongestSentencesThereMayBe) {
  const std::vector<PairLength> lengths = {{kMostLength, 5}, {5, kMostLength}};
  EXPECT_EQ(choose_buckets(lengths, 1, kMostLength).largest(), (Bucket{kMostLength, kMostLength}));
  EXPECT_THROW(choose_buckets(lengths, 1, kMostLength + 1), UsageError);
}

TEST(Batch, TimeMajorPaddedAndMasked) {
  EncodedText text;
  text.add(std::vector<int32_t>{11, 12, 13}, std::vector<int32_t>{21});
  text.add(std::vector<int32_t>{14}, std::vector<int32_t>{22, 23});
  const BucketLadder ladder{3, {{3, 3}, {9, 9}}};
  TextBatch batch;
  batch.source.assign(100, 77);  // what an earlier batch left
  fill_batch(text, std::vector<int32_t>{1, 0}, ladder, 0, batch);
  EXPECT_EQ(batch.S, 3);
  EXPECT_EQ(batch.T, 3);
  EXPECT_EQ(batch.B, 3);
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(batch.source, (Ids{14, 11, 0, 0, 12, 0, 0, 13, 0}));
  EXPECT_EQ(batch.target_in, (Ids{2, 2, 0, 22, 21, 0, 23, 0, 0}));
  EXPECT_EQ(batch.target_out, (Ids{22, 21, 0, 23, 3, 0, 3, 0, 0}));
  EXPECT_EQ(batch.source_lengths, (Ids{1, 3, 0}));
  EXPECT_EQ(batch.target_lengths, (Ids{3, 2, 0}));
  EXPECT_EQ(batch.rows, (Ids{1, 0, -1}));
  EXPECT_EQ(batch.source_tokens, 4);
  EXPECT_EQ(batch.target_tokens, 5);
  EXPECT_EQ(batch.sentences, 2);
  EXPECT_THROW(fill_batch(text, Ids{0}, ladder, 2, batch), ProgramError);
  EXPECT_THROW(fill_batch(text, Ids{0, 0, 0, 0}, ladder, 0, batch), ProgramError);
}

TEST(Batch, HasTheRowsOfItsBucket) {
  EncodedText text;
  text.add(std::vector<int32_t>{11}, std::vector<int32_t>{21});
  const BucketLadder ladder{0, {{2, 2, 3}, {4, 4, 1}}};
  TextBatch batch;
  fill_batch(text, std::vector<int32_t>{0, 0, 0}, ladder, 0, batch);
  EXPECT_EQ(batch.B, 3);
  EXPECT_EQ(batch.source, (std::vector<int32_t>{11, 11, 11, 0, 0, 0}));
  EXPECT_GE(batch.source.capacity(), 6u);
  fill_batch(text, std::vector<int32_t>{0}, ladder, 1, batch);
  EXPECT_EQ(batch.B, 1);
  EXPECT_EQ(batch.target_out, (std::vector<int32_t>{21, 3, 0, 0}));
  EXPECT_THROW(fill_batch(text, std::vector<int32_t>{0, 0}, ladder, 1, batch), ProgramError);
}

TEST(Batch, CutsWhatIsTooLong) {
  EncodedText text;
  text.add(std::vector<int32_t>{11, 12, 13}, std::vector<int32_t>{21, 22, 23});
  TextBatch batch;
  fill_batch(text, std::vector<int32_t>{0}, BucketLadder{1, {{2, 2}}}, 0, batch);
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(batch.source, (Ids{11, 12}));
  EXPECT_EQ(batch.target_in, (Ids{2, 21}));
  EXPECT_EQ(batch.target_out, (Ids{21, 3}));
  EXPECT_EQ(batch.target_lengths, (Ids{2}));
}

TEST(EncodedText, EncodesBothSides) {
  WordCounter counter;
  const std::vector<std::string> lines = {"b a, b"};
  count_words(lines, Tokenizer::simple, counter);
  const Vocabulary vocabulary = counter.vocabulary({});  // b , a from 4
  const Segmenter simple(Tokenizer::simple);
  const EncodedText text =
      encode_text({{"a b", ""}, {"b c", "a,"}}, {simple, vocabulary}, {simple, vocabulary});
  ASSERT_EQ(text.size(), 2);
  const auto ids = [](std::span<const int32_t> span) {
    return std::vector<int32_t>(span.begin(), span.end());
  };
  EXPECT_EQ(ids(text.source(0)), (std::vector<int32_t>{6, 4}));
  EXPECT_EQ(ids(text.target(0)), (std::vector<int32_t>{4, 1}));
  EXPECT_TRUE(text.source(1).empty());
  EXPECT_EQ(ids(text.target(1)), (std::vector<int32_t>{6, 5}));
  EXPECT_EQ(text.lengths()[0].target, 3);
}

TEST(Ladder, TheReportIsOneLine) {
  const LadderReport report{
      .pairs = 6, .dropped_long = 2, .dropped_empty = 1, .batches = 3, .tokens = 75, .cells = 100};
  EXPECT_EQ(report.print(), "6 pairs in 3 batches, 25.0 % padding; left out: 2 too long, 1 empty");
  EXPECT_EQ(LadderReport{}.print(),
            "0 pairs in 0 batches, 0.0 % padding; left out: 0 too long, 0 empty");
}

// At nine tenths of its tempo an utterance is longer by a ninth, and rounding adds frames.
TEST(SpeechLengths, HaveRoomForASlowerTempo) {
  Utterance said;
  said.frames = 90, said.labels = {1, 2, 3};
  Utterance silent;
  silent.frames = 95;
  const std::vector<Utterance> both = {said, silent};
  const std::vector<PairLength> plain = speech_lengths(both, false);
  const std::vector<PairLength> slow = speech_lengths(both, true);
  EXPECT_EQ(plain[0].source, 90);
  EXPECT_EQ(plain[0].target, 4);
  EXPECT_EQ(plain[1].target, 2);
  EXPECT_EQ(slow[0].source, 102);
  EXPECT_EQ(slow[1].source, 107);
  EXPECT_EQ(slow[0].target, 4);
}

}  // namespace
}  // namespace pal
