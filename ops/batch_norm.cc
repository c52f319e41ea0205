// Ioffe & Szegedy 2015, algorithm 1:  y = gamma xhat + beta,  xhat = (x - mean) rstd,  over R rows.
//   dbeta = sum dy,  dgamma = sum dy xhat,  dx = gamma rstd (dy - dbeta / R - xhat dgamma / R).
// Sums go through chunks of rows that depend on the shape alone. A chunk stays in the cache for its
// sum and its squared distances from its own mean, which Chan et al. 1979 combine without
// cancellation, so x is read from memory twice in all.
#include "ops/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "ops/cuda.h"
#include "ops/elementwise.h"

namespace pal {
namespace {

int64_t rows_of(const TensorSpec& x) { return leading_numel(x.shape, x.shape.rank() - 1); }
int64_t chunk_count(const TensorSpec& x) {
  const int64_t rows = batch_norm_rows(x.shape.back());
  return (rows_of(x) + rows - 1) / rows;
}

// Two sums per chunk and channel, then two numbers per channel.
Prepared two_sums(SpecSpan in, size_t x) {
  return {.workspace = (chunk_count(in[x]) + 1) * 2 * in[x].shape.back() * 4};
}

// sum[c] = the sum of x - the chunk's first row, m2[c] = the sum of (x - the chunk's mean)^2. The
// shift keeps the digits that a mean far from zero would take.
void chunk_moments(const float* x, int64_t rows, int64_t channels, float* sum, float* m2) {
  std::fill(sum, sum + channels, 0.0f);
  std::fill(m2, m2 + channels, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * channels;
    for (int64_t c = 0; c < channels; ++c) sum[c] += row[c] - x[c];
  }
  const float share = 1.0f / float(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const float distance = row[c] - x[c] - sum[c] * share;
      m2[c] += distance * distance;
    }
  }
}

// Of one channel, over all chunks: {mean, sum of squared distances}.
std::pair<double, double> combine(const float* partial, const float* x, int64_t c, int64_t rows,
                                  int64_t channels) {
  const int64_t step = batch_norm_rows(channels);
  auto each_chunk = [&](auto&& f) {  // f(its number of rows, its sum, its own m2)
    const float* p = partial + c;
    for (int64_t r = 0; r < rows; r += step, p += 2 * channels) {
      const double n = double(std::min(step, rows - r));
      f(n, n * double(x[r * channels + c]) + double(p[0]), double(p[channels]));
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

// y = (x - mean) scale + beta.
void normalize(const Queue& queue, const float* x, const float* mean, const float* scale,
               const float* beta, float* y, int64_t rows, int64_t channels) {
  parallel_chunks(queue, rows, batch_norm_rows(channels), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* row = x + r * channels;
      float* to = y + r * channels;
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) to[c] = (row[c] - mean[c]) * scale[c] + beta[c];
    }
  });
}

void run_forward(const KernelArgs& a) {
  const int64_t channels = a.in_spec[0].shape.back(), rows = rows_of(a.in_spec[0]);
  const float *x = a.input(0), *gamma = a.input(1), *beta = a.input(2);
  float *y = a.output(0), *mean_out = a.output(1), *rstd_out = a.output(2), *var_out = a.output(3);
  float* partial = reinterpret_cast<float*>(a.workspace);
  float* mean = partial + chunk_count(a.in_spec[0]) * 2 * channels;
  float* scale = mean + channels;
  const int64_t step = batch_norm_rows(channels);
  parallel_chunks(a.queue, rows, step, [&](int64_t begin, int64_t end) {
    float* own = partial + begin / step * 2 * channels;
    chunk_moments(x + begin * channels, end - begin, channels, own, own + channels);
  });
  const double eps = double(a.attrs.as<BatchNormAttrs>().eps);
  parallel_chunks(a.queue, channels, 64, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const auto [m, m2] = combine(partial, x, c, rows, channels);
      const float rstd = float(1 / std::sqrt(m2 / double(rows) + eps));
      mean[c] = float(m), scale[c] = gamma[c] * rstd;
      if (mean_out) mean_out[c] = float(m);
      if (rstd_out) rstd_out[c] = rstd;
      if (var_out) var_out[c] = float(m2 / double(std::max<int64_t>(rows - 1, 1)));
    }
  });
  if (y) normalize(a.queue, x, mean, scale, beta, y, rows, channels);
}

void run_infer(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t channels = a.in_spec[0].shape.back();
  const float *gamma = a.input(1), *variance = a.input(4);
  float* scale = reinterpret_cast<float*>(a.workspace);
  const float eps = a.attrs.as<BatchNormAttrs>().eps;
  for (int64_t c = 0; c < channels; ++c) scale[c] = gamma[c] / std::sqrt(variance[c] + eps);
  normalize(a.queue, a.input(0), a.input(3), scale, a.input(2), a.output(0), rows_of(a.in_spec[0]),
            channels);
}

// Operands dy, x, gamma, mean, rstd.
void run_gradient(const KernelArgs& a) {
  const int64_t channels = a.in_spec[0].shape.back(), rows = rows_of(a.in_spec[0]);
  const float *dy = a.input(0), *x = a.input(1), *gamma = a.input(2), *mean = a.input(3),
              *rstd = a.input(4);
  float *dx = a.output(0), *dgamma = a.output(1), *dbeta = a.output(2);
  float* partial = reinterpret_cast<float*>(a.workspace);
  float* mean_dy = partial + chunk_count(a.in_spec[0]) * 2 * channels;
  float* slope = mean_dy + channels;  // dgamma rstd / R
  const int64_t step = batch_norm_rows(channels);
  parallel_chunks(a.queue, rows, step, [&](int64_t begin, int64_t end) {
    float *sum = partial + begin / step * 2 * channels, *dot = sum + channels;
    std::fill(sum, sum + 2 * channels, 0.0f);
    for (int64_t r = begin; r < end; ++r) {
      const float *g = dy + r * channels, *row = x + r * channels;
      for (int64_t c = 0; c < channels; ++c) {
        sum[c] += g[c];
        dot[c] += g[c] * (row[c] - mean[c]);
      }
    }
  });
  parallel_chunks(a.queue, channels, 64, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double sum = 0, dot = 0;
      const float* p = partial + c;
      for (int64_t r = 0; r < rows; r += step, p += 2 * channels) {
        sum += double(p[0]), dot += double(p[channels]);
      }
      dot *= double(rstd[c]);
      if (dbeta) dbeta[c] = float(sum);
      if (dgamma) dgamma[c] = float(dot);
      mean_dy[c] = float(sum / double(rows));
      slope[c] = float(dot * double(rstd[c]) / double(rows));
    }
  });
  if (!dx) return;
  parallel_chunks(a.queue, rows, step, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float *g = dy + r * channels, *row = x + r * channels;
      float* to = dx + r * channels;
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        to[c] = gamma[c] * rstd[c] * (g[c] - mean_dy[c] - (row[c] - mean[c]) * slope[c]);
      }
    }
  });
}

// `images` operands like the first, then vectors of its channels.
void require_norm_operands(const char* op, SpecSpan in, size_t images, size_t count) {
  require(in.size() == count, op, "takes " + std::to_string(count) + " operands");
  require(
      in[0].shape.rank() >= 2 && in[0].dtype == DType::f32 && !in[0].layout && in[0].numel() > 0,
      op, to_string(in[0]) + ": needs plain f32 (.., C)");
  for (size_t i = 1; i < count; ++i) {
    const TensorSpec wanted = i < images ? in[0] : TensorSpec{{in[0].shape.back()}};
    require(in[i] == wanted, op,
            "operand " + std::to_string(i) + " should be " + to_string(wanted) + ", is " +
                to_string(in[i]));
  }
}

}  // namespace

const OpDef batch_norm_op{
    .name = "batch_norm",
    .formula = "gamma (x - mean) rstd + beta; mean, rstd, variance of the batch",
    .infer =
        [](SpecSpan in, const Attrs&) {
          require_norm_operands("batch_norm", in, 1, 3);
          return Specs{in[0], in[1], in[1], in[1]};
        },
    .gradient =
        [](GradientArgs& g) {
          if (!g.dy()) return;
          const auto d =
              g.builder.emit(batch_norm_grad_op, {g.dy(), g.in(0), g.in(1), g.out(1), g.out(2)});
          for (int k = 0; k < 3; ++k) {
            if (g.wants(k)) g.give(k, d[size_t(k)]);
          }
        },
    .shares = {{0, 0}},
    .cost =
        [](SpecSpan in, SpecSpan, const Attrs&) {
          return Cost{.flops = 8 * double(in[0].numel()), .bytes = 3 * double(in[0].bytes())};
        },
    .cpu = {.run = run_forward,
            .prepare = [](const Device&, SpecSpan in, SpecSpan,
                          const Attrs&) { return two_sums(in, 0); }},
    .cuda = &batch_norm_cuda,
    .examples =
        [] {
          return std::vector<Example>{
              {.operands = {example({2, 3, 3, 5}), example({5}), example({5})},
               .attrs = BatchNormAttrs{}},
              {.operands = {example({7, 19}), example({19}), example({19})},
               .attrs = BatchNormAttrs{0.1f},
               .unread = {0, 1, 1, 0}},
              {.operands = {example({3, 37, 5, 150}), example({150}), example({150})},
               .attrs = BatchNormAttrs{}},
          };
        },
};

const OpDef batch_norm_grad_op{
    .name = "batch_norm_grad",
    .formula = "dx, dgamma, dbeta of gamma (x - mean) rstd + beta",
    .infer =
        [](SpecSpan in, const Attrs&) {
          require_norm_operands("batch_norm_grad", in, 2, 5);
          return Specs{in[0], in[2], in[2]};
        },
    .shares = {{0, 0}, {0, 1}},
    .cost =
        [](SpecSpan in, SpecSpan, const Attrs&) {
          return Cost{.flops = 11 * double(in[0].numel()), .bytes = 5 * double(in[0].bytes())};
        },
    .cpu = {.run = run_gradient,
            .prepare = [](const Device&, SpecSpan in, SpecSpan,
                          const Attrs&) { return two_sums(in, 0); }},
    .cuda = &batch_norm_grad_cuda,
    .examples =
        [] {
          auto vector = [](int64_t c) { return example({c}, DType::f32, 0.5f, 2); };
          return std::vector<Example>{
              {.operands = {example({2, 3, 3, 5}), example({2, 3, 3, 5}), vector(5), vector(5),
                            vector(5)}},
              {.operands = {example({7, 19}), example({7, 19}), vector(19), vector(19), vector(19)},
               .unread = {1, 0, 0}},
              {.operands = {example({3, 37, 5, 150}), example({3, 37, 5, 150}), vector(150),
                            vector(150), vector(150)},
               .unread = {0, 0, 1}},
          };
        },
};

const OpDef batch_norm_infer_op{
    .name = "batch_norm_infer",
    .formula = "gamma (x - mean) / sqrt(variance + eps) + beta",
    .infer =
        [](SpecSpan in, const Attrs&) {
          require_norm_operands("batch_norm_infer", in, 1, 5);
          return Specs{in[0]};
        },
    .shares = {{0, 0}},
    .cpu = {.run = run_infer,
            .prepare = [](const Device&, SpecSpan in, SpecSpan,
                          const Attrs&) { return Prepared{.workspace = in[0].shape.back() * 4}; }},
    .cuda = &batch_norm_infer_cuda,
    .examples =
        [] {
          auto vector = [](int64_t c) { return example({c}, DType::f32, 0.5f, 2); };
          return std::vector<Example>{
              {.operands = {example({2, 3, 3, 5}), vector(5), vector(5), vector(5), vector(5)},
               .attrs = BatchNormAttrs{}},
              {.operands = {example({511, 150}), vector(150), vector(150), vector(150),
                            vector(150)},
               .attrs = BatchNormAttrs{0.1f}},
          };
        },
};

BatchNorm batch_norm(Val x, Val gamma, Val beta, float eps) {
  const auto out = x.builder->emit(batch_norm_op, {x, gamma, beta}, BatchNormAttrs{eps});
  return {out[0], out[1], out[2], out[3]};
}

Val batch_norm_infer(Val x, Val gamma, Val beta, Val mean, Val variance, float eps) {
  return x.builder->emit1(batch_norm_infer_op, {x, gamma, beta, mean, variance},
                          BatchNormAttrs{eps});
}

}  // namespace pal
