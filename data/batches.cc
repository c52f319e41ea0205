// Chooses the bucket ladder, and fills batches.
#include "data/batches.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "core/error.h"

namespace pal {
namespace {

void check_options(BatchSize batch, int max_length, int max_buckets) {
  const auto fail = [](const std::string& what) { throw UsageError("[buckets] " + what); };
  const int64_t size = batch.words() > 0 ? batch.words() : batch.sentences();
  if (size < 1 || size > 100'000'000) {
    fail("the batch is " + std::to_string(size) + "; it must be in [1, 100000000]");
  }
  if (max_length < 2 || max_length > kMostLength) {
    fail("the maximum length is " + std::to_string(max_length) + "; it must be in [2, " +
         std::to_string(kMostLength) + "]");
  }
  if (batch.words() > 0 && batch.words() < max_length) {
    fail("a batch of " + std::to_string(batch.words()) + " words holds no pair of the maximum " +
         "length, " + std::to_string(max_length) + "; raise one or lower the other");
  }
  if (max_buckets < 1 || max_buckets > kMostBuckets) {
    fail("the number of buckets is " + std::to_string(max_buckets) + "; it must be in [1, " +
         std::to_string(kMostBuckets) + "]");
  }
}

std::vector<PairLength> usable(std::span<const PairLength> lengths, int max_length) {
  std::vector<PairLength> kept;
  for (const PairLength& each : lengths) {
    if (!is_empty_pair(each) && each.source <= max_length && each.target <= max_length) {
      kept.push_back(each);
    }
  }
  if (kept.empty()) {
    throw UsageError("[buckets] none of " + std::to_string(lengths.size()) +
                     " sentence pairs has 1 to " + std::to_string(max_length) +
                     " steps on both sides; raise the maximum length or check the corpus");
  }
  return kept;
}

// The lengths at which one side may be cut: `most`, and down from it by an even step.
struct Axis {
  int most, step, count;

  explicit Axis(int longest)
      : most(longest), step((longest + 63) / 64), count((longest - 1) / step + 1) {}
  int cut(int index) const { return most - (count - 1 - index) * step; }
  int index(int length) const { return count - 1 - (most - length) / step; }
};

// A ladder of these buckets, each with its rows.
BucketLadder ladder_of(std::vector<Bucket> buckets, BatchSize batch) {
  for (Bucket& each : buckets) {
    each.rows = batch.words() > 0 ? batch.rows(each.source, each.target) : 0;
  }
  return {static_cast<int>(batch.sentences()), std::move(buckets)};
}

// Joins rungs to the one above them until `most` are left, first the one whose pairs that pads by
// the fewest cells.
void join_rungs(BucketLadder& ladder, std::span<const PairLength> pairs, int most) {
  std::vector<Bucket>& rungs = ladder.buckets;
  std::vector<int64_t> held(rungs.size());
  for (const PairLength& each : pairs) ++held[static_cast<size_t>(ladder.find(each))];
  while (static_cast<int>(rungs.size()) > most) {
    size_t best = 0;
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i + 1 < rungs.size(); ++i) {
      const int64_t added =
          held[i] * (rungs[i + 1].source - rungs[i].source + rungs[i + 1].target - rungs[i].target);
      if (added < fewest) fewest = added, best = i;
    }
    held[best + 1] += held[best];
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(best));
    rungs.erase(rungs.begin() + static_cast<std::ptrdiff_t>(best));
  }
}

}  // namespace

int BatchSize::rows(int64_t source, int64_t target) const {
  if (words_ == 0) return static_cast<int>(sentences_);
  const int64_t fit = words_ / std::max<int64_t>({source, target, 1});
  return static_cast<int>(fit >= 8 ? fit / 8 * 8 : std::max<int64_t>(fit, 1));
}

int BucketLadder::rows(int bucket) const {
  const int own = buckets.at(static_cast<size_t>(bucket)).rows;
  return own > 0 ? own : batch;
}

int BucketLadder::find(PairLength length) const {
  // What one bucket holds, all that follow hold too.
  const auto found = std::partition_point(buckets.begin(), buckets.end(), [&](const Bucket& each) {
    return length.source > each.source || length.target > each.target;
  });
  return found == buckets.end() ? -1 : static_cast<int>(found - buckets.begin());
}

std::string BucketLadder::print() const {
  std::string text = batch > 0 ? std::to_string(batch) + " rows;" : "";
  for (const Bucket& each : buckets) {
    text += (text.empty() ? "(" : " (") + std::to_string(each.source) + "," +
            std::to_string(each.target) + ")";
    if (each.rows > 0) text += "x" + std::to_string(each.rows);
  }
  return text;
}

LadderReport report_ladder(std::span<const PairLength> lengths, const BucketLadder& ladder) {
  LadderReport report;
  std::vector<int64_t> counts(ladder.buckets.size());
  for (const PairLength& each : lengths) {
    const int bucket = ladder.find(each);
    if (is_empty_pair(each)) {
      ++report.dropped_empty;
    } else if (bucket < 0) {
      ++report.dropped_long;
    } else {
      ++report.pairs;
      ++counts[static_cast<size_t>(bucket)];
      report.tokens += each.source + each.target;
    }
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t rows = ladder.rows(static_cast<int>(i));
    const int64_t batches = (counts[i] + rows - 1) / rows;
    report.batches += batches;
    report.cells += batches * rows * (ladder.buckets[i].source + ladder.buckets[i].target);
  }
  return report;
}

std::string LadderReport::print() const {
  const double padding =
      cells == 0 ? 0 : 100.0 * static_cast<double>(cells - tokens) / static_cast<double>(cells);
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f", padding);
  return std::to_string(pairs) + " pairs in " + std::to_string(batches) + " batches, " + percent +
         " % padding; left out: " + std::to_string(dropped_long) + " too long, " +
         std::to_string(dropped_empty) + " empty";
}

BucketLadder choose_buckets(std::span<const PairLength> lengths, BatchSize batch, int max_length,
                            int max_buckets) {
  check_options(batch, max_length, max_buckets);
  const std::vector<PairLength> pairs = usable(lengths, max_length);
  PairLength most;
  for (const PairLength& each : pairs) {
    most = {std::max(most.source, each.source), std::max(most.target, each.target)};
  }
  const Axis source(most.source), target(most.target);
  // held[i][j] = pairs that a bucket (source cut i, target cut j) holds.
  const size_t width = static_cast<size_t>(target.count);
  const size_t cuts = static_cast<size_t>(source.count) * width;
  std::vector<int64_t> held(cuts);
  for (const PairLength& each : pairs) {
    ++held[size_t(source.index(each.source)) * width + size_t(target.index(each.target))];
  }
  for (size_t at = 0; at < cuts; ++at) held[at] += at % width > 0 ? held[at - 1] : 0;
  for (size_t at = width; at < cuts; ++at) held[at] += held[at - width];

  // best[at][k]: fewest cells of a ladder of k + 1 buckets that ends at `at`; from[at][k]: the
  // bucket below. Buckets are nested, so one holds held[at] - held[below] pairs of its own.
  const size_t depth = static_cast<size_t>(max_buckets);
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 2;
  std::vector<int64_t> best(cuts * depth, kNever);
  std::vector<int32_t> from(cuts * depth, -1);
  for (size_t at = 0; at < cuts; ++at) {
    const size_t i = at / width, j = at % width;
    const int64_t S = source.cut(int(i)), T = target.cut(int(j)), rows = batch.rows(S, T);
    const int64_t cells = rows * (S + T);
    best[at * depth] = (held[at] + rows - 1) / rows * cells;
    for (size_t below_i = 0; below_i <= i; ++below_i) {
      for (size_t below = below_i * width; below <= below_i * width + j; ++below) {
        const int64_t own = held[at] - held[below];
        if (own == 0 || held[below] == 0) continue;
        const int64_t cost = (own + rows - 1) / rows * cells;
        for (size_t k = 1; k < depth; ++k) {
          const int64_t total = best[below * depth + k - 1] + cost;
          if (total < best[at * depth + k]) {
            best[at * depth + k] = total;
            from[at * depth + k] = static_cast<int32_t>(below);
          }
        }
      }
    }
  }
  size_t k = 0;  // the fewest buckets among equally good ladders
  for (size_t more = 1; more < depth; ++more) {
    if (best[(cuts - 1) * depth + more] < best[(cuts - 1) * depth + k]) k = more;
  }
  BucketLadder ladder{0, std::vector<Bucket>(k + 1)};
  size_t at = cuts - 1;
  for (size_t rung = k + 1; rung-- > 0;) {
    ladder.buckets[rung] = {source.cut(int(at / width)), target.cut(int(at % width))};
    if (rung > 0) at = static_cast<size_t>(from[at * depth + rung]);
  }
  // Where the cuts are coarse, shrink each bucket to the longest pairs that it holds.
  std::vector<Bucket> tight(ladder.buckets.size());
  for (const PairLength& each : pairs) {
    Bucket& bucket = tight[static_cast<size_t>(ladder.find(each))];
    bucket = {std::max(bucket.source, each.source), std::max(bucket.target, each.target)};
  }
  for (size_t rung = 1; rung < tight.size(); ++rung) {
    tight[rung] = {std::max(tight[rung].source, tight[rung - 1].source),
                   std::max(tight[rung].target, tight[rung - 1].target)};
  }
  return ladder_of(std::move(tight), batch);
}

BucketLadder width_buckets(std::span<const PairLength> lengths, BatchSize batch, int max_length,
                           int width, int max_buckets) {
  check_options(batch, max_length, max_buckets);
  if (width < 1) {
    throw UsageError("[buckets] the width is " + std::to_string(width) + "; it must be at least 1");
  }
  double ratio = 0;  // mean of target words / source words, as Sockeye's corpus statistics have it
  const std::vector<PairLength> pairs = usable(lengths, max_length);
  for (const PairLength& each : pairs) ratio += double(each.target - 1) / each.source;
  ratio /= static_cast<double>(pairs.size());
  int source_step = width, target_step = width;
  if (ratio >= 1) {
    source_step = std::max(1, static_cast<int>(std::nearbyint(width / ratio)));
  } else {
    target_step = std::max(1, static_cast<int>(std::nearbyint(width * ratio)));
  }
  BucketLadder ladder;
  for (int i = 1;; ++i) {
    const Bucket next = {std::min(i * source_step, max_length),
                         std::min(i * target_step, max_length)};
    ladder.buckets.push_back({std::max(2, next.source), std::max(2, next.target)});
    if (next.source == max_length && next.target == max_length) break;
  }
  const auto repeated = std::unique(ladder.buckets.begin(), ladder.buckets.end());
  ladder.buckets.erase(repeated, ladder.buckets.end());
  join_rungs(ladder, pairs, max_buckets);
  return ladder_of(std::move(ladder.buckets), batch);
}

void fill_batch(const EncodedText& text, std::span<const int32_t> rows, const BucketLadder& ladder,
                int bucket, TextBatch& out) {
  if (bucket < 0 || bucket >= int(ladder.buckets.size()) ||
      rows.size() > size_t(ladder.rows(bucket))) {
    throw ProgramError("[batch] bucket " + std::to_string(bucket) + " with " +
                       std::to_string(rows.size()) + " rows, of a ladder of " + ladder.print());
  }
  const Bucket shape = ladder.buckets[static_cast<size_t>(bucket)];
  out.bucket = bucket;
  out.S = shape.source;
  out.T = shape.target;
  out.B = ladder.rows(bucket);
  const size_t B = static_cast<size_t>(out.B);
  size_t most_source = 0, most_target = 0;
  for (int i = 0; i < int(ladder.buckets.size()); ++i) {
    const Bucket& each = ladder.buckets[static_cast<size_t>(i)];
    most_source = std::max(most_source, size_t(each.source) * size_t(ladder.rows(i)));
    most_target = std::max(most_target, size_t(each.target) * size_t(ladder.rows(i)));
  }
  out.source.reserve(most_source);  // the most of any bucket, once: later batches allocate nothing
  out.target_in.reserve(most_target);
  out.target_out.reserve(most_target);
  out.source.assign(size_t(shape.source) * B, Vocabulary::kPad);
  out.target_in.assign(size_t(shape.target) * B, Vocabulary::kPad);
  out.target_out.assign(size_t(shape.target) * B, Vocabulary::kPad);
  out.source_lengths.assign(B, 0);
  out.target_lengths.assign(B, 0);
  out.rows.assign(B, -1);
  out.source_tokens = out.target_tokens = 0;
  out.sentences = static_cast<int>(rows.size());
  out.position = out.resume = {};
  for (size_t b = 0; b < rows.size(); ++b) {
    const std::span<const int32_t> source = text.source(rows[b]), target = text.target(rows[b]);
    const size_t S = std::min(source.size(), size_t(shape.source));
    const size_t words = std::min(target.size(), size_t(shape.target) - 1);
    for (size_t s = 0; s < S; ++s) out.source[s * B + b] = source[s];
    out.target_in[b] = Vocabulary::kBegin;
    for (size_t t = 0; t < words; ++t) {
      out.target_in[(t + 1) * B + b] = target[t];
      out.target_out[t * B + b] = target[t];
    }
    out.target_out[words * B + b] = Vocabulary::kEnd;
    out.rows[b] = rows[b];
    out.source_lengths[b] = static_cast<int32_t>(S);
    out.target_lengths[b] = static_cast<int32_t>(words) + 1;
    out.source_tokens += out.source_lengths[b];
    out.target_tokens += out.target_lengths[b];
  }
}

}  // namespace pal
