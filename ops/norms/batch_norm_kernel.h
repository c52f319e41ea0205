// What the kernels of batch norm as one node and as two have in common: the statistics of a batch,
// and y = (x - mean) scale + beta.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/op.h"
#include "core/parallel.h"
#include "ops/kernels/float_types.h"

namespace pal {

// Sums go through chunks of so many rows, on every device.
inline int64_t batch_norm_rows(int64_t channels) { return std::max<int64_t>(32, 16384 / channels); }

int64_t batch_norm_chunks(const TensorSpec& x);
// Two sums per chunk and channel, then two numbers per channel.
Prepared prepare_batch_norm(const TensorSpec& x);

// Per channel; of `variance` null is allowed.
struct BatchMoments {
  float *mean, *rstd, *variance;
};
// Of x (rows, channels), floats of that type. `partial`: two numbers a chunk and channel. The sums
// go through chunks of rows that depend on the shape alone. A chunk stays in the cache for its sum
// and its squared distances from its own mean, which Chan et al. 1979 combine without cancellation,
// so x is read from memory once.
void batch_moments(const Queue& queue, const void* x, DType type, int64_t rows, int64_t channels,
                   float eps, float* partial, const BatchMoments& out);

// What becomes of an element, given its place.
struct AsItIs {
  float operator()(float y, int64_t) const { return y; }
};

// y = f((x - mean) scale + beta, its place), row after row; y may be x.
template <class T, class F>
void normalize(const Queue& queue, const T* x, const float* mean, const float* scale,
               const float* beta, T* y, int64_t rows, int64_t channels, F f) {
  parallel_chunks(queue, rows, batch_norm_rows(channels), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* row = x + r * channels;
      T* to = y + r * channels;
      const auto finish = f;  // its own copy: the stores below could change one that others see
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        store(to, c, finish((load(row, c) - mean[c]) * scale[c] + beta[c], r * channels + c));
      }
    }
  });
}

// ProgramError unless there are `count` operands, the first of them plain floats (.., C), `images`
// like it, then f32 vectors (C).
void require_norm_operands(const char* op, SpecSpan in, size_t images, size_t count);

}  // namespace pal
