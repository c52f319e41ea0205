// Buckets and batches. A step is compiled for one (source, target) length pair and a fixed number
// of rows; the ladder is the short list of such pairs, each holding all that the one before holds.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/encoded_text.h"

namespace pal {

inline constexpr int kMostBuckets = 12;

struct Bucket {
  int source = 0, target = 0;  // S and T: the longest pair it holds, in steps
  bool operator==(const Bucket&) const = default;
};

struct BucketLadder {
  int batch = 0;                // B, rows of every batch
  std::vector<Bucket> buckets;  // rising: S and T never shrink from one to the next

  const Bucket& largest() const { return buckets.back(); }
  int find(PairLength length) const;  // the first bucket that holds the pair, or -1
  std::string print() const;          // "64 rows; (7,8) (12,14) (40,40)"
};

// What batching a corpus by a ladder costs and leaves out.
struct LadderReport {
  int64_t pairs = 0;            // kept
  int64_t dropped_long = 0;     // fit no bucket
  int64_t dropped_empty = 0;    // one side has no word
  int64_t batches = 0;          // in an epoch
  int64_t tokens = 0;           // source and target steps of the pairs kept
  int64_t cells = 0;            // source and target steps computed, padding included
  std::string print() const;    // one line
};
LadderReport report_ladder(std::span<const PairLength> lengths, const BucketLadder& ladder);

// The ladder of at most max_buckets buckets with the fewest cells (B·(S+T) over the epoch's
// batches, padded last batches counted), by dynamic programming over nested pairs of lengths. It
// is exact up to 64 steps; longer texts are cut at multiples of a coarser step. Pairs with an
// empty side or more than max_length steps on either side (the target's </s> counted) are left
// out. UsageError: batch, max_length or max_buckets out of range, or no pair left.
BucketLadder choose_buckets(std::span<const PairLength> lengths, int batch, int max_length,
                            int max_buckets = kMostBuckets);

// Sockeye's ladder (define_parallel_buckets): `width` steps on the longer side, the other side
// scaled by the corpus's mean target/source ratio, both ending at max_length. UsageError as above,
// or when that makes more than kMostBuckets buckets.
BucketLadder width_buckets(std::span<const PairLength> lengths, int batch, int max_length,
                           int width);

// Where a pass over a corpus stands: the next batch to be handed out.
struct IteratorState {
  int64_t epoch = 0;           // from 0
  int64_t batch_in_epoch = 0;  // from 0
  bool operator==(const IteratorState&) const = default;
};

// One batch, time-major. Padding is Vocabulary::kPad (0) throughout. Rows beyond `sentences` have
// both lengths 0: attention over their zero positions must give zeros, and no loss counts them.
struct TextBatch {
  int bucket = 0;                       // index into the ladder
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

// Fills `out` with the pairs of `rows` (at most ladder.batch), reusing its memory. Pairs longer
// than the bucket are cut (the target keeps its </s>), which only validation and decoding do.
// ProgramError: no such bucket, or too many rows.
void fill_batch(const EncodedText& text, std::span<const int32_t> rows, const BucketLadder& ladder,
                int bucket, TextBatch& out);

}  // namespace pal
