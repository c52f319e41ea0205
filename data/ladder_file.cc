// The ladder in a file.
#include "data/ladder_file.h"

#include <cstdio>

#include "core/error.h"
#include "data/atomic_file.h"
#include "data/text.h"

namespace pal {

void save_ladder(const std::string& path, const BucketLadder& ladder) {
  std::string text;
  for (const Bucket& each : ladder.buckets) {
    text += std::to_string(each.source) + " " + std::to_string(each.target);
    text += (each.rows > 0 ? " " + std::to_string(each.rows) : "") + "\n";
  }
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

BucketLadder load_ladder(const std::string& path, const BatchSize& batch) {
  BucketLadder ladder{static_cast<int>(batch.sentences()), {}};
  for (const std::string& line : read_lines({path, "", ""})) {
    Bucket bucket;
    char more = 0;
    int read = std::sscanf(line.c_str(), "%d %d %d %c", &bucket.source, &bucket.target,
                           &bucket.rows, &more);
    if (read == 2 && std::sscanf(line.c_str(), "%*d %*d %c", &more) == 1) read = 0;  // "9 9 x"
    const Bucket last = ladder.buckets.empty() ? Bucket{1, 1} : ladder.largest();
    const bool rows_fit =
        read == 2 || (batch.words() > 0 && bucket.rows > 0 && bucket.rows <= 100'000'000);
    if (read < 2 || read > 3 || !rows_fit || bucket.source < last.source ||
        bucket.target < last.target || bucket.source > 10000 || bucket.target > 10000) {
      throw UsageError("[buckets] " + path + ": line " + std::to_string(ladder.buckets.size() + 1) +
                       ": expected two lengths, neither shorter than before" +
                       (batch.words() > 0 ? ", and the rows of a batch" : "") +
                       "; restore the file from the run that wrote it");
    }
    if (batch.words() > 0 && read == 2) bucket.rows = batch.rows(bucket.source, bucket.target);
    ladder.buckets.push_back(bucket);
  }
  return ladder;
}

}  // namespace pal
