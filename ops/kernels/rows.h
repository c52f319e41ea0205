// Reductions along a row, in an order that depends on its length alone: element i goes to lane
// i mod 32, and the lanes are combined pairwise. The same bits for any thread count, any address,
// and whether the row is reduced whole or tile by tile (tiles are multiples of 32).
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/spec.h"
#include "ops/kernels/element_types.h"

namespace pal {

constexpr int kLanes = 32;

// f(lane[l], lane[l + N / 2]) for the lower half of the lanes, then again, until one is left.
template <int N, class F> [[gnu::always_inline]] inline float fold_lanes(const float* lane, F f) {
  if constexpr (N == 1) {
    return lane[0];
  } else {
    float half[N / 2];
#pragma omp simd
    for (int l = 0; l < N / 2; ++l) half[l] = f(lane[l], lane[l + N / 2]);
    return fold_lanes<N / 2>(half, f);
  }
}

// The running sum of a row.
struct LaneSum {
  float lane[kLanes] = {};

  // Adds f(0), .., f(n - 1). All calls for a row but the last must have n a multiple of kLanes.
  template <class F> void add(int64_t n, F f) {
    float sum[kLanes];
    std::memcpy(sum, lane, sizeof sum);
    const int64_t whole = n / kLanes * kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) sum[l] += f(i + l);
    }
    if (whole < n) {
      float rest[kLanes] = {};  // so that the lanes are only ever added as a whole
      for (int64_t i = whole; i < n; ++i) rest[i - whole] = f(i);
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) sum[l] += rest[l];
    }
    std::memcpy(lane, sum, sizeof sum);
  }
  float total() const {
    return fold_lanes<kLanes>(lane, [](float a, float b) { return a + b; });
  }
};

// The running maximum of a row; NaN is passed over.
struct LaneMax {
  float lane[kLanes];

  LaneMax() {
    for (float& x : lane) x = -__builtin_huge_valf();
  }
  template <class F> void add(int64_t n, F f) {
    float best[kLanes];
    std::memcpy(best, lane, sizeof best);
    const int64_t whole = n / kLanes * kLanes;
    for (int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) {
        const float x = f(i + l);
        best[l] = x > best[l] ? x : best[l];
      }
    }
    for (int64_t i = whole; i < n; ++i) {
      const float x = f(i);
      best[0] = x > best[0] ? x : best[0];
    }
    std::memcpy(lane, best, sizeof best);
  }
  float total() const {
    return fold_lanes<kLanes>(lane, [](float a, float b) { return b > a ? b : a; });
  }
};

template <class F> float row_sum(int64_t n, F f) {
  LaneSum sum;
  sum.add(n, f);
  return sum.total();
}

// f(0) + .. + f(n - 1) in double, of what chunks have left behind: number i goes to lane i mod 128,
// in order, and the lanes are combined pairwise. The same on every device (tree_sum of
// cuda_rows.h), where one number after the other would keep a whole GPU waiting.
constexpr int kTreeLanes = 128;
template <class F> double tree_sum(int64_t n, F f) {
  double lane[kTreeLanes];
  int64_t width = 1;
  while (width < n && width < kTreeLanes) width *= 2;  // the lanes behind would add zeros
  for (int64_t l = 0; l < width; ++l) {
    lane[l] = 0;
    for (int64_t i = l; i < n; i += kTreeLanes) lane[l] += f(i);
  }
  for (width /= 2; width > 0; width /= 2) {
    for (int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

// Rows that one of the partial sums takes: of sums down the rows, on every device. There are 32
// chunks, or more of them where they would have over 32 rows, 256 at most: enough blocks for a GPU.
constexpr int64_t kPartialSums = 256;
inline int64_t rows_per_partial(int64_t rows) {
  const int64_t least = 32;
  const auto over = [&](int64_t chunks) { return (rows + chunks - 1) / chunks; };
  return std::max<int64_t>({1, over(kPartialSums), std::min(over(least), least)});
}

// Element i as f32, of any floating-point storage: for the few numbers that go with a row.
inline float load_one(const void* data, DType type, int64_t i) {
  switch (type) {
    case DType::bf16: return load(static_cast<const bf16*>(data), i);
    case DType::f16: return load(static_cast<const f16*>(data), i);
    default: return static_cast<const float*>(data)[i];
  }
}
inline void store_one(void* data, DType type, int64_t i, float x) {
  switch (type) {
    case DType::bf16: return store(static_cast<bf16*>(data), i, x);
    case DType::f16: return store(static_cast<f16*>(data), i, x);
    default: static_cast<float*>(data)[i] = x;
  }
}

}  // namespace pal
