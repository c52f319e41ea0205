// Rows of any storage of floats, tile by tile as f32: what they share that are reduced along the
// last axis (ops/kernels/rows.h).
#pragma once
#include <algorithm>

#include "ops/kernels/math.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/tiles.h"

namespace pal {

// Rows of a chunk of about so many elements, one at least.
inline int64_t rows_of_chunk(int64_t width, int64_t elements = kElementGrain) {
  return std::max<int64_t>(1, elements / std::max<int64_t>(1, width));
}

// Calls f(tile, j, elements) for the tiles of the n elements from `begin` on, the first of them
// element begin + j.
template <class F>
void each_tile(const void* data, DType type, int64_t begin, int64_t n, float* buffer, F f) {
  for (int64_t j = 0; j < n; j += kTile) {
    const int64_t size = std::min(kTile, n - j);
    f(load_tile(data, type, begin + j, size, buffer), j, size);
  }
}

// Of the n elements x from `begin` on: their maximum, the sum of e^(x - most), log sum e^x.
inline float max_of_row(const void* data, DType type, int64_t begin, int64_t n, float* buffer) {
  LaneMax top;
  each_tile(data, type, begin, n, buffer, [&](const float* x, int64_t, int64_t size) {
    top.add(size, [&](int64_t e) { return x[e]; });
  });
  return top.total();
}
inline float exp_sum_of_row(const void* data, DType type, int64_t begin, int64_t n, float most,
                            float* buffer) {
  LaneSum sum;
  each_tile(data, type, begin, n, buffer, [&](const float* x, int64_t, int64_t size) {
    sum.add(size, [&](int64_t e) { return exp(x[e] - most); });
  });
  return sum.total();
}
inline float log_sum_exp_of_row(const void* data, DType type, int64_t begin, int64_t n,
                                float* buffer) {
  const float most = max_of_row(data, type, begin, n, buffer);
  return most + log(exp_sum_of_row(data, type, begin, n, most, buffer));
}

// out[j] = the sum of `chunks` rows of partial sums, `stride` apart, in their order, (+ old[j]).
inline void sum_partials(float* out, const float* partial, int64_t chunks, int64_t stride,
                         int64_t width, const float* old) {
  for (int64_t j = 0; j < width; j += kTile) {
    alignas(64) float total[kTile] = {};
    const int64_t n = std::min(kTile, width - j);
    for (int64_t c = 0; c < chunks; ++c) {
      const float* own = partial + c * stride + j;
      for (int64_t e = 0; e < n; ++e) total[e] += own[e];
    }
    for (int64_t e = 0; e < n; ++e) out[j + e] = old ? old[j + e] + total[e] : total[e];
  }
}

}  // namespace pal
