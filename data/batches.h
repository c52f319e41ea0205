// Buckets and batches. A step is compiled for one (source, target) length pair and a fixed number
// of rows; the ladder is the short list of such pairs, each holding all that the one before holds.
// Every bucket has as many rows as the others, or as many as fit a number of words.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/encoded_text.h"

namespace pal {

inline constexpr int kMostBuckets = 12;
inline constexpr int kMostLength = 10'000;

struct Bucket {
  int source = 0, target = 0;  // S and T: the longest pair it holds, in steps
  int rows = 0;                // of its batches; 0: the ladder's
  bool operator==(const Bucket&) const = default;
};

// How many rows a batch has.
class BatchSize {
 public:
  BatchSize(int64_t sentences) : sentences_(sentences) {}
  // As many rows as fit so many words, where a row counts as many as the longer of its two padded
  // sides has steps (the target's </s> is one); from 8 on, a multiple of 8. At least one row.
  static BatchSize of_words(int64_t words) { return BatchSize(0, words); }

  int rows(int64_t source, int64_t target) const;
  int64_t sentences() const { return sentences_; }  // 0 where words are counted
  int64_t words() const { return words_; }          // 0 where sentences are counted

 private:
  BatchSize(int64_t sentences, int64_t words) : sentences_(sentences), words_(words) {}
  int64_t sentences_, words_ = 0;
};

struct BucketLadder {
  int batch = 0;                // B, rows of every batch; 0: every bucket has its own
  std::vector<Bucket> buckets;  // rising: S and T never shrink from one to the next

  const Bucket& largest() const { return buckets.back(); }  // the longest pairs'
  int rows(int bucket) const;                               // B of the bucket's batches
  int find(PairLength length) const;  // the first bucket that holds the pair, or -1
  std::string print() const;          // "64 rows; (7,8) (12,14) (40,40)", or "(7,8)x40 (12,14)x24"
};

// What batching a corpus by a ladder costs and leaves out.
struct LadderReport {
  int64_t pairs = 0;          // kept
  int64_t dropped_long = 0;   // fit no bucket
  int64_t dropped_empty = 0;  // one side has no word
  int64_t batches = 0;        // in an epoch
  int64_t tokens = 0;         // source and target steps of the pairs kept
  int64_t cells = 0;          // source and target steps computed, padding included
  std::string print() const;  // one line
};
LadderReport report_ladder(std::span<const PairLength> lengths, const BucketLadder& ladder);

// The ladder of at most max_buckets buckets with the fewest cells (B·(S+T) over the epoch's
// batches, padded last batches counted), by dynamic programming over nested pairs of lengths. It
// is exact up to 64 steps; longer texts are cut at multiples of a coarser step. Pairs with an
// empty side or more than max_length steps on either side (the target's </s> counted) are left
// out. UsageError: batch (fewer words than max_length, too), max_length or max_buckets out of
// range, or no pair left.
BucketLadder choose_buckets(std::span<const PairLength> lengths, BatchSize batch, int max_length,
                            int max_buckets = kMostBuckets);

// Sockeye's ladder (define_parallel_buckets): `width` steps on the longer side, the other side
// scaled by the corpus's mean target/source ratio, both ending at max_length. That is one bucket
// more than max_length / width where the scaled side takes longer to its end; of more than
// max_buckets, those are joined to the next one whose pairs it pads least. UsageError as above.
BucketLadder width_buckets(std::span<const PairLength> lengths, BatchSize batch, int max_length,
                           int width, int max_buckets = kMostBuckets);

// Where a pass over a corpus stands: the next batch to be handed out.
struct IteratorState {
  int64_t epoch = 0;           // from 0
  int64_t batch_in_epoch = 0;  // from 0
  bool operator==(const IteratorState&) const = default;
};

// One batch, time-major. Padding is Vocabulary::kPad (0) throughout. Rows beyond `sentences` have
// both lengths 0: attention over their zero positions must give zeros, and no loss counts them.
struct TextBatch {
  int bucket = 0;  // index into the ladder
  int S = 0, T = 0, B = 0;
  std::vector<int32_t> source;          // (S, B)
  std::vector<int32_t> source_lengths;  // (B)
  std::vector<int32_t> target_in;       // (T, B) <s> w1 ... wn
  std::vector<int32_t> target_out;      // (T, B) w1 ... wn </s>
  std::vector<int32_t> target_lengths;  // (B) n + 1; 0 in padding rows
  int64_t source_tokens = 0;            // sum of source_lengths
  int64_t target_tokens = 0;            // sum of target_lengths
  int sentences = 0;                    // rows that hold a pair; they come first
  std::vector<int32_t> rows;            // (B) the pair's index in the corpus; -1 in padding rows
  IteratorState position;               // of this batch
  IteratorState resume;                 // from here a run goes on after this batch
};

// Fills `out` with the pairs of `rows` (at most ladder.rows(bucket)), reusing its memory. Pairs
// longer than the bucket are cut (the target keeps its </s>), which only validation and decoding
// do. ProgramError: no such bucket, or too many rows.
void fill_batch(const EncodedText& text, std::span<const int32_t> rows, const BucketLadder& ladder,
                int bucket, TextBatch& out);

}  // namespace pal
