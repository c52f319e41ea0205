// What the kernels of batch norm, as one node and as two, and of frame norm have in common: sums
// over rows of channels, and y = (x - mean) scale + beta. They differ in the rows that count: all
// (AllRows), or those of valid frames (FrameRows of ops/norms/frame_rows.h).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/op.h"
#include "core/parallel.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/tiles.h"

namespace pal {

// Rows in a chunk of a sum, on every device.
inline int64_t batch_norm_rows(int64_t channels) { return std::max<int64_t>(32, 16384 / channels); }

// x (.., C) as frames of one row, every one valid.
struct AllRows {
  int64_t frames, channels;
  static constexpr int64_t rows = 1;  // of a frame

  explicit AllRows(const TensorSpec& x)
      : frames(leading_numel(x.shape, x.shape.rank() - 1)), channels(x.shape.back()) {}
  static constexpr bool valid(int64_t) { return true; }
  int64_t elements() const { return channels; }  // of a frame
  int64_t chunk() const { return batch_norm_rows(channels); }
  int64_t chunks() const { return (frames + chunk() - 1) / chunk(); }
  int64_t count(int64_t begin, int64_t end) const { return end - begin; }
  int64_t first_row(int64_t begin, int64_t) const { return begin * channels; }
  template <class F> void each_row(int64_t begin, int64_t end, F f) const {
    for (int64_t r = begin; r < end; ++r) f(r * channels);
  }
};

// For batch norm: two sums per chunk and channel, then two numbers per channel.
Prepared prepare_batch_norm(const Device&, SpecSpan in, SpecSpan out, const Attrs&);
// For what is applied with given statistics: a number per channel.
Prepared prepare_channels(const Device&, SpecSpan in, SpecSpan out, const Attrs&);

// So many operations an element of the first operand, and passes over it.
template <int flops, int passes> Cost norm_cost(SpecSpan in, SpecSpan, const Attrs&) {
  return {.flops = flops * double(in[0].numel()), .bytes = passes * double(in[0].bytes())};
}

// What becomes of a channel's mean and its rows' squared distances from it; of `variance` null is
// allowed.
struct Moments {
  float *mean, *rstd, *variance;
  float eps;

  void operator()(int64_t c, double rows, double center, double m2) const {
    mean[c] = float(center);
    rstd[c] = float(1 / std::sqrt(m2 / rows + double(eps)));
    if (variance) variance[c] = float(m2 / std::max(rows - 1, 1.0));
  }
};
// Of all rows of x, floats of that spec. `partial`: two numbers a chunk and channel. The sums go
// through chunks of rows that depend on the shape alone. A chunk stays in the cache for its sum and
// its squared distances from its own mean, which Chan et al. 1979 combine without cancellation, so
// x is read from memory once.
void batch_moments(const Queue& queue, const void* x, const TensorSpec& spec, float* partial,
                   const Moments& out);

// Of operands x, gamma, .. -> y, mean, rstd, variance, of which the last three are made here: what
// y needs of them. `scale` = gamma rstd.
struct BatchScale {
  const float *mean, *scale;
};
BatchScale batch_scale(const KernelArgs& a, float eps);

// sum[c] = the sum of x - base(c), m2[c] = the sum of (x - the chunk's mean)^2, over the rows that
// count among frames [begin, end). The base, one of the rows, keeps the digits that a mean far from
// zero would take.
template <class T, class Rows, class Base>
void chunk_moments(const Rows& q, const T* x, int64_t begin, int64_t end, Base base, float* sum,
                   float* m2) {
  const int64_t channels = q.channels, n = q.count(begin, end);
  std::fill(sum, sum + channels, 0.0f);
  std::fill(m2, m2 + channels, 0.0f);
  if (n == 0) return;
  q.each_row(begin, end, [&](int64_t at) {
    const T* row = x + at;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) sum[c] += load(row, c) - base(c);
  });
  const float share = 1.0f / float(n);
  q.each_row(begin, end, [&](int64_t at) {
    const T* row = x + at;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float distance = load(row, c) - base(c) - sum[c] * share;
      m2[c] += distance * distance;
    }
  });
}

// Of one channel in a chunk: rows, their sum, the squared distances from their own mean.
struct ChunkMoments {
  double rows, sum, m2;
};
// Over all chunks, in double; `of(chunk, channel)` are its moments. `rows`: that count, 1 at least.
// put(channel, rows, mean, squared distances from it).
template <class F, class G>
void combine_moments(const Queue& queue, int64_t channels, int64_t chunks, double rows, F of,
                     G put) {
  parallel_chunks(queue, channels, 64, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const double mean = tree_sum(chunks, [&](int64_t k) { return of(k, c).sum; }) / rows;
      const double m2 = tree_sum(chunks, [&](int64_t k) {
        const ChunkMoments own = of(k, c);
        if (!(own.rows > 0)) return 0.0;
        const double distance = own.sum / own.rows - mean;
        return own.m2 + own.rows * distance * distance;
      });
      put(c, rows, mean, m2);
    }
  });
}

// Floats of workspace for row_moments.
template <class Rows> int64_t moments_workspace(const Rows& q) {
  return (3 * q.channels + 1) * q.chunks();
}
// Of all rows that count, put as combine_moments does. Returns how many there are.
template <class T, class Rows, class G>
int64_t row_moments(const Queue& queue, const Rows& q, const T* x, float* partial, G put) {
  const int64_t channels = q.channels, step = q.chunk();
  float* count = partial + 3 * q.chunks() * channels;  // behind (chunks, {base, sum, m2}, C)
  parallel_chunks(queue, q.frames, step, [&](int64_t begin, int64_t end) {
    float* base = partial + begin / step * 3 * channels;
    const int64_t first = q.first_row(begin, end);
    for (int64_t c = 0; c < channels; ++c) base[c] = first == kNone ? 0 : load(x, first + c);
    count[begin / step] = float(q.count(begin, end));
    chunk_moments(
        q, x, begin, end, [base](int64_t c) { return base[c]; }, base + channels,
        base + 2 * channels);
  });
  const int64_t rows = q.count(0, q.frames);
  combine_moments(
      queue, channels, q.chunks(), double(std::max<int64_t>(rows, 1)),
      [&](int64_t k, int64_t c) -> ChunkMoments {
        const double n = double(count[k]);
        const float* own = partial + k * 3 * channels + c;
        return {n, n * double(own[0]) + double(own[channels]), double(own[2 * channels])};
      },
      put);
  return rows;
}

// What becomes of an element, given its place.
struct AsItIs {
  float operator()(float y, int64_t) const { return y; }
};

// y = f((x - mean) scale + beta, its place) in valid frames, row after row, 0 in others; y may be
// x.
template <class T, class Rows, class F = AsItIs>
void normalize(const Queue& queue, const Rows& q, const T* x, const float* mean, const float* scale,
               const float* beta, T* y, F f = {}) {
  const int64_t channels = q.channels;
  parallel_chunks(queue, q.frames, q.chunk(), [&](int64_t begin, int64_t end) {
    for (int64_t frame = begin; frame < end; ++frame) {
      const int64_t from = frame * q.elements();
      if (!q.valid(frame)) {
        std::fill(y + from, y + from + q.elements(), T{});
        continue;
      }
      for (int64_t at = from; at < from + q.rows * channels; at += channels) {
        const T* row = x + at;
        T* to = y + at;
        const auto finish = f;  // its own copy: the stores below could change one that others see
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) {
          store(to, c, finish((load(row, c) - mean[c]) * scale[c] + beta[c], at + c));
        }
      }
    }
  });
}

// What counts as an element's dy, given its x and channel.
struct GivenDy {
  float operator()(float dy, float, int64_t) const { return dy; }
};

// Of a gradient: the sums of dy and of dy (x - mean), a chunk's in f32. `partial`: two numbers a
// chunk and channel.
template <class T, class Rows, class F = GivenDy>
void gradient_chunks(const Queue& queue, const Rows& q, const T* dy, const T* x, const float* mean,
                     float* partial, F f = {}) {
  const int64_t channels = q.channels, step = q.chunk();
  parallel_chunks(queue, q.frames, step, [&](int64_t begin, int64_t end) {
    float *sum = partial + begin / step * 2 * channels, *dot = sum + channels;
    std::fill(sum, sum + 2 * channels, 0.0f);
    q.each_row(begin, end, [&](int64_t at) {
      const T *g = dy + at, *row = x + at;
      const auto counted = f;  // its own copy: the stores below could change one that others see
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        const float here = load(row, c), d = counted(load(g, c), here, c);
        sum[c] += d;
        dot[c] += d * (here - mean[c]);
      }
    });
  });
}
// put(channel, sum of dy, sum of dy xhat), in double.
template <class Rows, class F>
void combine_gradient(const Queue& queue, const Rows& q, const float* partial, const float* rstd,
                      F put) {
  const int64_t channels = q.channels;
  parallel_chunks(queue, channels, 64, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const double sum =
          tree_sum(q.chunks(), [&](int64_t k) { return double(partial[k * 2 * channels + c]); });
      const double dot = double(rstd[c]) * tree_sum(q.chunks(), [&](int64_t k) {
                           return double(partial[(k * 2 + 1) * channels + c]);
                         });
      put(c, sum, dot);
    }
  });
}
// Per channel, what an element's gradient needs; `slope` = sum of dy xhat times rstd / N.
struct NormSlopes {
  const float *gamma, *mean, *rstd, *mean_dy, *slope;
};
template <class T, class Rows, class F = GivenDy>
void gradient_elements(const Queue& queue, const Rows& q, const T* dy, const T* x,
                       const NormSlopes& s, T* dx, F f = {}) {
  const int64_t channels = q.channels;
  const float *gamma = s.gamma, *mean = s.mean, *rstd = s.rstd;
  const float *mean_dy = s.mean_dy, *slope = s.slope;
  parallel_chunks(queue, q.frames, q.chunk(), [&](int64_t begin, int64_t end) {
    for (int64_t frame = begin; frame < end; ++frame) {
      const int64_t from = frame * q.elements();
      if (!q.valid(frame)) {
        std::fill(dx + from, dx + from + q.elements(), T{});
        continue;
      }
      for (int64_t at = from; at < from + q.rows * channels; at += channels) {
        const T *g = dy + at, *row = x + at;
        T* to = dx + at;
        const auto counted = f;  // as in gradient_chunks
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) {
          const float here = load(row, c), d = counted(load(g, c), here, c);
          const float distance = here - mean[c];
          store(to, c, gamma[c] * rstd[c] * (d - mean_dy[c] - distance * slope[c]));
        }
      }
    }
  });
}

// Operands dy, x, gamma, and from `statistics` on mean and rstd -> dx, dgamma, dbeta, over the N
// rows that count:
//   dbeta = sum dy,  dgamma = sum dy xhat,  dx = gamma rstd (dy - dbeta / N - xhat dgamma / N).
// Workspace: two numbers a chunk and channel, then two a channel.
template <class T, class Rows, class F = GivenDy>
void norm_gradient(const KernelArgs& a, const Rows& q, size_t statistics, F f = {}) {
  const T *dy = a.input<T>(0), *x = a.input<T>(1);
  const float *mean = a.input(statistics), *rstd = a.input(statistics + 1);
  float *dgamma = a.output(1), *dbeta = a.output(2);
  float* partial = reinterpret_cast<float*>(a.workspace);  // (chunks, {sum, dot}, C)
  float* mean_dy = partial + 2 * q.chunks() * q.channels;
  float* slope = mean_dy + q.channels;
  gradient_chunks(a.queue, q, dy, x, mean, partial, f);
  const double rows = double(std::max<int64_t>(q.count(0, q.frames), 1));
  combine_gradient(a.queue, q, partial, rstd, [&](int64_t c, double sum, double dot) {
    if (dbeta) dbeta[c] = float(sum);
    if (dgamma) dgamma[c] = float(dot);
    mean_dy[c] = float(sum / rows);
    slope[c] = float(dot * double(rstd[c]) / rows);
  });
  if (!a.out[0]) return;
  gradient_elements(a.queue, q, dy, x, {a.input(2), mean, rstd, mean_dy, slope}, a.output<T>(0), f);
}

// ProgramError unless there are `count` operands, the first of them plain floats (.., C), `images`
// like it, then f32 vectors (C). With a batch axis x has frames (two axes more), and operand 3 is
// the lengths, i32 (B).
void require_norm_operands(SpecSpan in, size_t images, size_t count, int batch_axis = kNone);

// Of an example: `images` operands like x (.., C), then `vectors` f32 (C) from 0.5 on.
std::vector<ExampleOperand> norm_operands(const Shape& x, size_t images, size_t vectors,
                                          DType type = DType::f32);

}  // namespace pal
