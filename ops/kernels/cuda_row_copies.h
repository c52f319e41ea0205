// Copies of rows whose sources are computed: `copy_rows_async` moves them in the widest words that
// all addresses and strides are multiples of.
#pragma once
#include "ops/kernels/cuda_elements.h"

namespace pal {

struct SameRow {
  __device__ int64_t operator()(int64_t r) const { return r; }
};

template <class W> __device__ W all_bits() {
  if constexpr (sizeof(W) == 16)
    return make_uint4(~0u, ~0u, ~0u, ~0u);
  else
    return W(~W(0));
}

// `rows` rows of `words` words, a thread a word.
template <class W, class Source>
__global__ void copy_rows_kernel(W* to, int64_t to_stride, const W* from, int64_t from_stride,
                                 int64_t rows, int64_t words, Source source) {
  const int64_t i = thread_number();
  if (i >= rows * words) return;
  const int64_t r = divide(i, words), w = i - r * words, s = source(r);
  to[r * to_stride + w] = s == kNoRow ? all_bits<W>() : from[s * from_stride + w];
}

template <class W, class Source>
void copy_words(const KernelArgs& a, void* to, int64_t to_stride, const void* from,
                int64_t from_stride, int64_t rows, int64_t bytes, Source source) {
  const int64_t size = sizeof(W), words = bytes / size;
  launch(copy_rows_kernel<W, Source>, {blocks_of(rows * words, kThreads)}, a, static_cast<W*>(to),
         to_stride / size, static_cast<const W*>(from), from_stride / size, rows, words, source);
}

// Rows of `bytes` bytes at distances `to_stride` and `from_stride`.
template <class Source>
void copy_rows_async(const KernelArgs& a, void* to, int64_t to_stride, const void* from,
                     int64_t from_stride, int64_t rows, int64_t bytes, Source source) {
  if (rows == 0 || bytes == 0) return;
  const uint64_t all = uint64_t(reinterpret_cast<uintptr_t>(to)) |
                       uint64_t(reinterpret_cast<uintptr_t>(from)) | uint64_t(to_stride) |
                       uint64_t(from_stride) | uint64_t(bytes);
  if (all % 16 == 0) {
    return copy_words<uint4>(a, to, to_stride, from, from_stride, rows, bytes, source);
  }
  if (all % 4 == 0) {
    return copy_words<uint32_t>(a, to, to_stride, from, from_stride, rows, bytes, source);
  }
  if (all % 2 == 0) {
    return copy_words<uint16_t>(a, to, to_stride, from, from_stride, rows, bytes, source);
  }
  copy_words<uint8_t>(a, to, to_stride, from, from_stride, rows, bytes, source);
}

}  // namespace pal
