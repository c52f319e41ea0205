// The ladder in a file: a run keeps the one that it was compiled for.
#pragma once
#include <string>

#include "data/batches.h"

namespace pal {

inline constexpr const char* kLadderFile = "buckets.txt";

// A line a bucket: its two lengths and, where it has its own, the rows of its batches.
void save_ladder(const std::string& path, const BucketLadder& ladder);
// Rows that the file lacks are `batch`'s. UsageError, beginning with [buckets]: missing, or not
// such a ladder.
BucketLadder load_ladder(const std::string& path, const BatchSize& batch);

}  // namespace pal
