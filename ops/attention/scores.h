// What the scores over source positions share: their loop on the CPU, and whose sums are a GPU's
// own.
#pragma once
#include "ops/kernels/row_tiles.h"

namespace pal {

// Whether a GPU sums the scores of such keys in an order of its own: by the eight.
inline bool is_wide_score(const TensorSpec& keys) {
  return keys.dtype != DType::f32 && keys.shape[2] % 8 == 0;
}

// keys (S, B, width), query (B, width) -> y[s,b] = the sum of f(keys[s,b,j], query[b,j], j), in
// chunks of about so many elements.
template <class F> void run_score(const KernelArgs& a, int64_t elements, F f) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t rows = shape[0] * shape[1], batch = shape[1], width = shape[2];
  const DType type = a.in_spec[0].dtype;
  parallel_chunks(a.queue, rows, rows_of_chunk(width, elements), [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[2][kTile];
    for (int64_t row = begin; row < end; ++row) {
      LaneSum sum;
      for (int64_t j = 0; j < width; j += kTile) {
        const int64_t n = std::min(kTile, width - j);
        const float* k = load_tile(a.in[0], type, row * width + j, n, buffer[0]);
        const float* q = load_tile(a.in[1], type, row % batch * width + j, n, buffer[1]);
        sum.add(n, [&](int64_t e) { return f(k[e], q[e], j + e); });
      }
      store_one(a.out[0], type, row, sum.total());
    }
  });
}

}  // namespace pal
