// A thread multiplies up to 4 x 64 rows by up to 6 x 64 columns at a time, of as many terms as let
// these operands, their packed copies and the result lie in three quarters of its second cache. How
// many rows and columns depends on the number of threads; so where the most of both leave room for
// all terms, nothing that threads change can cut the sum. From 16 threads on, sums of more than
// 1,024 terms may be shared out among threads. (brgemm_matmul_utils.cpp there:
// compute_blocking_heuristic_amx, set_blocking_parameters; measured:
// docs/decisions/determinism.md.)
#include "ops/libraries/tile_sums.h"

#include <cpuid.h>

#include <algorithm>
#include <limits>

namespace pal {
namespace {

constexpr int64_t kBlock = 64, kRowBlocks = 4, kColumnBlocks = 6, kTerms = 32;
constexpr int64_t kShareTerms = 1024;
constexpr int kShareThreads = 16;
constexpr int64_t kLeastPiece = 128;

bool ask_processor(unsigned leaf, unsigned index, CpuidWords& w) {
  return __get_cpuid_count(leaf, index, &w.a, &w.b, &w.c, &w.d) != 0;
}

// The most that rows and columns at a time and `k` terms of them may take.
int64_t most_bytes(const TileSum& s, int64_t k) {
  const int64_t rows = s.m <= kBlock ? kBlock : kRowBlocks * kBlock;
  const int64_t columns = kBlock * std::min((s.n + kBlock - 1) / kBlock, kColumnBlocks);
  const int64_t operands = 2 * k * (2 * rows + columns + kBlock);
  const bool summed_apart = (s.accumulate || !s.to_f32) && k % kTerms > 0;
  return operands + 4 * rows * columns * (1 + summed_apart);
}

bool is_one(const TileSum& s) {
  static const int64_t room = second_cache(ask_processor) / 4 * 3;
  return s.k <= kTerms || most_bytes(s, s.k) <= room;
}

}  // namespace

int threads_of_tile_sum(const TileSum& sum) {
  if (!is_one(sum)) return 0;
  return sum.batch == 1 && sum.k > kShareTerms ? kShareThreads - 1
                                               : std::numeric_limits<int>::max();
}

int64_t tile_piece(int64_t m, int64_t n) {
  const auto whole = [&](int64_t k) {
    return is_one({.m = m, .n = n, .k = k, .accumulate = true});
  };
  int64_t piece = kShareTerms;
  while (piece > 0 && !(whole(piece) && whole(piece - 1))) piece -= kTerms;  // the last is shorter
  return piece < kLeastPiece ? 0 : piece;
}

int64_t second_cache(const Cpuid& cpuid) {
  CpuidWords w;
  // Threads that share a core, and cores' threads in all; 0 where it says nothing.
  const int64_t of_core = cpuid(0xB, 0, w) ? w.b & 0xffff : 0;
  const int64_t of_all = cpuid(0xB, 1, w) ? w.b & 0xffff : 0;
  int64_t first_threads = 0;
  for (unsigned index = 0; index < 16; ++index) {
    if (!cpuid(4, index, w) || (w.a & 31) == 0) break;
    if ((w.a & 31) == 2) continue;  // of instructions
    int64_t threads = (w.a >> 14 & 0xfff) + 1;
    if (of_all > 0) threads = std::min(threads, of_all);
    if (first_threads == 0) first_threads = threads;
    if ((w.a >> 5 & 7) != 2) continue;
    const int64_t ways = (w.b >> 22) + 1, partitions = (w.b >> 12 & 0x3ff) + 1,
                  line = (w.b & 0xfff) + 1, sets = int64_t(w.c) + 1;
    const int64_t together = of_core > 0 ? of_core : first_threads;
    return ways * partitions * line * sets / std::max<int64_t>(threads / together, 1);
  }
  return 512 << 10;
}

}  // namespace pal
