// Chunks of rows, and their combination.
#include "ops/norms/batch_norm_kernel.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/kernels/tiles.h"

namespace pal {
namespace {

int64_t rows_of(const TensorSpec& x) { return leading_numel(x.shape, x.shape.rank() - 1); }

// sum[c] = the sum of x - the chunk's first row, m2[c] = the sum of (x - the chunk's mean)^2. The
// shift keeps the digits that a mean far from zero would take.
template <class T>
void chunk_moments(const T* x, int64_t rows, int64_t channels, float* sum, float* m2) {
  std::fill(sum, sum + channels, 0.0f);
  std::fill(m2, m2 + channels, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * channels;
    for (int64_t c = 0; c < channels; ++c) sum[c] += load(row, c) - load(x, c);
  }
  const float share = 1.0f / float(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const float distance = load(row, c) - load(x, c) - sum[c] * share;
      m2[c] += distance * distance;
    }
  }
}

// Of one channel, over all chunks: {mean, sum of squared distances}.
template <class T>
std::pair<double, double> combine(const float* partial, const T* x, int64_t c, int64_t rows,
                                  int64_t channels) {
  const int64_t step = batch_norm_rows(channels);
  auto each_chunk = [&](auto&& f) {  // f(its number of rows, its sum, its own m2)
    const float* p = partial + c;
    for (int64_t r = 0; r < rows; r += step, p += 2 * channels) {
      const double n = double(std::min(step, rows - r));
      f(n, n * double(load(x, r * channels + c)) + double(p[0]), double(p[channels]));
    }
  };
  double sum = 0, m2 = 0;
  each_chunk([&](double, double own, double) { sum += own; });
  const double mean = sum / double(rows);
  each_chunk([&](double n, double own, double own_m2) {
    const double distance = own / n - mean;
    m2 += own_m2 + n * distance * distance;
  });
  return {mean, m2};
}

template <class T>
void moments(const Queue& queue, const T* x, int64_t rows, int64_t channels, float eps,
             float* partial, const BatchMoments& out) {
  const int64_t step = batch_norm_rows(channels);
  parallel_chunks(queue, rows, step, [&](int64_t begin, int64_t end) {
    float* own = partial + begin / step * 2 * channels;
    chunk_moments(x + begin * channels, end - begin, channels, own, own + channels);
  });
  parallel_chunks(queue, channels, 64, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const auto [mean, m2] = combine(partial, x, c, rows, channels);
      out.mean[c] = float(mean);
      out.rstd[c] = float(1 / std::sqrt(m2 / double(rows) + double(eps)));
      if (out.variance) out.variance[c] = float(m2 / double(std::max<int64_t>(rows - 1, 1)));
    }
  });
}

}  // namespace

int64_t batch_norm_chunks(const TensorSpec& x) {
  const int64_t rows = batch_norm_rows(x.shape.back());
  return (rows_of(x) + rows - 1) / rows;
}

Prepared prepare_batch_norm(const TensorSpec& x) {
  return {.workspace = (batch_norm_chunks(x) + 1) * 2 * x.shape.back() * 4};
}

void batch_moments(const Queue& queue, const void* x, DType type, int64_t rows, int64_t channels,
                   float eps, float* partial, const BatchMoments& out) {
  by_float_type(type, [&](auto zero) {
    moments(queue, static_cast<const decltype(zero)*>(x), rows, channels, eps, partial, out);
  });
}

void require_norm_operands(const char* op, SpecSpan in, size_t images, size_t count) {
  require(in.size() == count, op, "takes " + std::to_string(count) + " operands");
  require(in[0].shape.rank() >= 2 && is_float(in[0].dtype) && !in[0].layout && in[0].numel() > 0,
          op, to_string(in[0]) + ": needs plain floats (.., C)");
  for (size_t i = 1; i < count; ++i) {
    const TensorSpec wanted = i < images ? in[0] : TensorSpec{{in[0].shape.back()}};
    require(in[i] == wanted, op,
            "operand " + std::to_string(i) + " should be " + to_string(wanted) + ", is " +
                to_string(in[i]));
  }
}

}  // namespace pal
