// Sums of products on the CPU: through fixed chunks, in double from tile to tile.
#pragma once
#include "ops/kernels/row_tiles.h"
#include "ops/kernels/rows.h"

namespace pal {

inline Prepared prepare_products(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  const int64_t chunks = (in[0].numel() + kElementGrain - 1) / kElementGrain;
  return {.workspace = chunks * int64_t(sizeof(double))};
}

// *out = the sum of operand x times operand y, which may be one, (+ old).
inline void sum_products(const KernelArgs& a, size_t x, size_t y, const float* old, float* out) {
  const DType type = a.in_spec[x].dtype;
  double* partial = reinterpret_cast<double*>(a.workspace);
  parallel_chunks(a.queue, a.in_spec[x].numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[2][kTile];
    double sum = 0;
    each_tile(
        a.in[x], type, begin, end - begin, buffer[0], [&](const float* left, int64_t i, int64_t n) {
          const float* right = x == y ? left : load_tile(a.in[y], type, begin + i, n, buffer[1]);
          sum += double(row_sum(n, [&](int64_t e) { return left[e] * right[e]; }));
        });
    partial[begin / kElementGrain] = sum;
  });
  const int64_t chunks = (a.in_spec[x].numel() + kElementGrain - 1) / kElementGrain;
  const double total = tree_sum(chunks, [&](int64_t i) { return partial[i]; });
  *out = float(total) + (old ? *old : 0.0f);
}

}  // namespace pal
