// Ioffe & Szegedy 2015 over the N rows of C channels that belong to valid frames:
//   y = gamma (x - mean) rstd + beta;  dbeta = sum dy,  dgamma = sum dy xhat,
//   dx = gamma rstd (dy - dbeta / N - xhat dgamma / N);  y and dx are 0 in invalid frames.
// Sums go through chunks of frames that depend on the shape alone, in f32 within a chunk, shifted
// by its first row, and in double from chunk to chunk (Chan et al. 1979 for the squares).
#include "ops/norms/frame_norm.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// Three rows of channels per chunk, then two, then a number per chunk: floats.
Prepared prepare(SpecSpan in, const Attrs& attrs) {
  const FrameRows q(in[0], attrs, nullptr);
  return {.workspace = ((3 * q.chunks() + 2) * q.channels + q.chunks()) * 4};
}

// y = (x - mean) scale + shift in valid frames, 0 in others.
template <class T>
void normalize(const Queue& queue, const FrameRows& q, const T* x, const float* mean,
               const float* scale, const float* shift, T* y) {
  const int64_t channels = q.channels;
  parallel_chunks(queue, q.frames, q.chunk(), [&](int64_t begin, int64_t end) {
    for (int64_t f = begin; f < end; ++f) {
      T* to = y + f * q.elements();
      if (!q.valid(f)) {
        std::fill(to, to + q.elements(), T{});
        continue;
      }
      const T* from = x + f * q.elements();
      for (int64_t r = 0; r < q.rows; ++r, from += channels, to += channels) {
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) {
          store(to, c, (load(from, c) - mean[c]) * scale[c] + shift[c]);
        }
      }
    }
  });
}

// Of a chunk: its first valid row (`base`), the sum of x - base, the squared distances from its own
// mean.
template <class T>
void chunk_moments(const FrameRows& q, const T* x, int64_t begin, int64_t end, float* base,
                   float* sum, float* m2) {
  const int64_t channels = q.channels, n = q.count(begin, end);
  std::fill(base, base + channels, 0.0f);
  std::fill(sum, sum + channels, 0.0f);
  std::fill(m2, m2 + channels, 0.0f);
  if (n == 0) return;
  bool first = true;
  q.each_row(begin, end, [&](int64_t at) {
    for (int64_t c = 0; first && c < channels; ++c) base[c] = load(x, at + c);
    first = false;
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) sum[c] += load(x, at + c) - base[c];
  });
  const float share = 1.0f / float(n);
  q.each_row(begin, end, [&](int64_t at) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) {
      const float distance = load(x, at + c) - base[c] - sum[c] * share;
      m2[c] += distance * distance;
    }
  });
}

// x, gamma, beta, lengths -> y, mean, rstd, variance
template <class T> void forward(const KernelArgs& a) {
  const FrameRows q(a.in_spec[0], a.attrs, a.input<int32_t>(3));
  const int64_t channels = q.channels, step = q.chunk();
  const T* x = a.input<T>(0);
  const float* gamma = a.input(1);
  float *mean_out = a.output(1), *rstd_out = a.output(2), *var_out = a.output(3);
  float* partial = reinterpret_cast<float*>(a.workspace);  // (chunks, {base, sum, m2}, C)
  float* mean = partial + 3 * q.chunks() * channels;
  float* scale = mean + channels;
  float* count = scale + channels;  // valid rows of a chunk
  parallel_chunks(a.queue, q.frames, step, [&](int64_t begin, int64_t end) {
    float* own = partial + begin / step * 3 * channels;
    count[begin / step] = float(q.count(begin, end));
    chunk_moments(q, x, begin, end, own, own + channels, own + 2 * channels);
  });
  const double rows = double(std::max<int64_t>(q.count(0, q.frames), 1));
  const double eps = double(a.attrs.as<FrameNormAttrs>().eps);
  parallel_chunks(a.queue, channels, 64, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      auto each_chunk = [&](auto&& f) {  // f(rows, sum, squares)
        for (int64_t k = 0; k < q.chunks(); ++k) {
          const double n = double(count[k]);
          const float* own = partial + k * 3 * channels + c;
          if (n > 0) f(n, n * double(own[0]) + double(own[channels]), double(own[2 * channels]));
        }
      };
      double sum = 0, m2 = 0;
      each_chunk([&](double, double own, double) { sum += own; });
      const double m = sum / rows;
      each_chunk([&](double n, double own, double own_m2) {
        const double distance = own / n - m;
        m2 += own_m2 + n * distance * distance;
      });
      const float rstd = float(1 / std::sqrt(m2 / rows + eps));
      mean[c] = float(m), scale[c] = gamma[c] * rstd;
      if (mean_out) mean_out[c] = float(m);
      if (rstd_out) rstd_out[c] = rstd;
      if (var_out) var_out[c] = float(m2 / std::max(rows - 1, 1.0));
    }
  });
  if (a.out[0]) normalize(a.queue, q, x, mean, scale, a.input(2), a.output<T>(0));
}
void run_forward(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&](auto zero) { forward<decltype(zero)>(a); });
}

// x, gamma, beta, lengths, mean, variance -> y
void run_infer(const KernelArgs& a) {
  if (!a.out[0]) return;
  const FrameRows q(a.in_spec[0], a.attrs, a.input<int32_t>(3));
  const float *gamma = a.input(1), *variance = a.input(5);
  float* scale = reinterpret_cast<float*>(a.workspace);
  const float eps = a.attrs.as<FrameNormAttrs>().eps;
  for (int64_t c = 0; c < q.channels; ++c) scale[c] = gamma[c] / std::sqrt(variance[c] + eps);
  by_float_type(a.in_spec[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    normalize(a.queue, q, a.input<T>(0), a.input(4), scale, a.input(2), a.output<T>(0));
  });
}

// dy, x, gamma, lengths, mean, rstd -> dx, dgamma, dbeta
template <class T> void gradient(const KernelArgs& a) {
  const FrameRows q(a.in_spec[0], a.attrs, a.input<int32_t>(3));
  const int64_t channels = q.channels, step = q.chunk();
  const T *dy = a.input<T>(0), *x = a.input<T>(1);
  const float *gamma = a.input(2), *mean = a.input(4), *rstd = a.input(5);
  T* dx = a.output<T>(0);
  float *dgamma = a.output(1), *dbeta = a.output(2);
  float* partial = reinterpret_cast<float*>(a.workspace);  // (chunks, {sum, dot}, C)
  float* mean_dy = partial + 3 * q.chunks() * channels;
  float* slope = mean_dy + channels;  // dgamma rstd / N
  parallel_chunks(a.queue, q.frames, step, [&](int64_t begin, int64_t end) {
    float *sum = partial + begin / step * 2 * channels, *dot = sum + channels;
    std::fill(sum, sum + 2 * channels, 0.0f);
    q.each_row(begin, end, [&](int64_t at) {
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        sum[c] += load(dy, at + c);
        dot[c] += load(dy, at + c) * (load(x, at + c) - mean[c]);
      }
    });
  });
  const double rows = double(std::max<int64_t>(q.count(0, q.frames), 1));
  parallel_chunks(a.queue, channels, 64, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double sum = 0, dot = 0;
      const float* p = partial + c;
      for (int64_t k = 0; k < q.chunks(); ++k, p += 2 * channels) {
        sum += double(p[0]), dot += double(p[channels]);
      }
      dot *= double(rstd[c]);
      if (dbeta) dbeta[c] = float(sum);
      if (dgamma) dgamma[c] = float(dot);
      mean_dy[c] = float(sum / rows);
      slope[c] = float(dot * double(rstd[c]) / rows);
    }
  });
  if (!dx) return;
  parallel_chunks(a.queue, q.frames, step, [&](int64_t begin, int64_t end) {
    for (int64_t f = begin; f < end; ++f) {
      const int64_t from = f * q.elements();
      if (!q.valid(f)) {
        std::fill(dx + from, dx + from + q.elements(), T{});
        continue;
      }
      for (int64_t at = from; at < from + q.elements(); at += channels) {
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) {
          const float distance = load(x, at + c) - mean[c];
          store(dx, at + c,
                gamma[c] * rstd[c] * (load(dy, at + c) - mean_dy[c] - distance * slope[c]));
        }
      }
    }
  });
}
void run_gradient(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&](auto zero) { gradient<decltype(zero)>(a); });
}

// `images` operands like the first, then vectors of its channels, with lengths in place 3.
void check(const char* op, SpecSpan in, size_t images, size_t count, const Attrs& attrs) {
  require(in.size() == count, op, "takes " + std::to_string(count) + " operands");
  require(in[0].shape.rank() >= 3 && is_float(in[0].dtype) && !in[0].layout && in[0].numel() > 0,
          op, to_string(in[0]) + ": needs plain floats (T, B, .., C)");
  const int64_t batch = in[0].shape[attrs.as<FrameNormAttrs>().batch_first ? 0 : 1];
  for (size_t i = 1; i < count; ++i) {
    const TensorSpec wanted = i < images ? in[0]
                              : i == 3   ? TensorSpec{{batch}, DType::i32}
                                         : TensorSpec{{in[0].shape.back()}};
    require(in[i] == wanted, op,
            "operand " + std::to_string(i) + " should be " + to_string(wanted) + ", is " +
                to_string(in[i]));
  }
}

ExampleOperand lengths(int64_t batch, int64_t least, int64_t most) {
  return example({batch}, DType::i32, float(least), float(most));
}

}  // namespace

const OpDef frame_norm_op{
    .name = "frame_norm",
    .formula = "gamma (x - mean) rstd + beta in valid frames, 0 elsewhere; mean, rstd, variance",
    .infer =
        [](SpecSpan in, const Attrs& attrs) {
          check("frame_norm", in, 1, 4, attrs);
          return Specs{in[0], in[1], in[1], in[1]};
        },
    .gradient =
        [](GradientArgs& g) {
          if (!g.dy()) return;
          const auto d =
              g.builder.emit(frame_norm_grad_op,
                             {g.dy(), g.in(0), g.in(1), g.in(3), g.out(1), g.out(2)}, g.node.attrs);
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
                          const Attrs& attrs) { return prepare(in, attrs); }},
    .cuda = &frame_norm_cuda,
    .examples =
        [] {
          return std::vector<Example>{
              {.operands = {example({4, 3, 5}), example({5}), example({5}), lengths(3, 2, 4)},
               .attrs = FrameNormAttrs{}},
              {.operands = {example({3, 4, 2, 5}), example({5}), example({5}), lengths(3, 1, 4)},
               .attrs = FrameNormAttrs{0.1f, true},
               .unread = {0, 1, 1, 0}},
              {.operands = {example({37, 5, 150}), example({150}), example({150}),
                            lengths(5, 0, 37)},
               .attrs = FrameNormAttrs{}},
              {.operands = {half_example({3, 4, 2, 24}), example({24}), example({24}),
                            lengths(3, 1, 4)},
               .attrs = FrameNormAttrs{1e-5f, true}},
              {.operands = {half_example({37, 5, 50}, DType::f16), example({50}), example({50}),
                            lengths(5, 1, 37)},
               .attrs = FrameNormAttrs{}},
          };
        },
};

const OpDef frame_norm_grad_op{
    .name = "frame_norm_grad",
    .formula = "dx, dgamma, dbeta of gamma (x - mean) rstd + beta in valid frames",
    .infer =
        [](SpecSpan in, const Attrs& attrs) {
          check("frame_norm_grad", in, 2, 6, attrs);
          return Specs{in[0], in[2], in[2]};
        },
    .shares = {{0, 0}, {0, 1}},
    .cost =
        [](SpecSpan in, SpecSpan, const Attrs&) {
          return Cost{.flops = 11 * double(in[0].numel()), .bytes = 5 * double(in[0].bytes())};
        },
    .cpu = {.run = run_gradient,
            .prepare = [](const Device&, SpecSpan in, SpecSpan,
                          const Attrs& attrs) { return prepare(in, attrs); }},
    .cuda = &frame_norm_grad_cuda,
    .examples =
        [] {
          auto vector = [](int64_t c) { return example({c}, DType::f32, 0.5f, 2); };
          return std::vector<Example>{
              {.operands = {example({4, 3, 5}), example({4, 3, 5}), vector(5), lengths(3, 0, 4),
                            vector(5), vector(5)},
               .attrs = FrameNormAttrs{}},
              {.operands = {example({3, 4, 2, 5}), example({3, 4, 2, 5}), vector(5),
                            lengths(3, 0, 4), vector(5), vector(5)},
               .attrs = FrameNormAttrs{0.1f, true},
               .unread = {1, 0, 0}},
              {.operands = {example({37, 5, 150}), example({37, 5, 150}), vector(150),
                            lengths(5, 0, 37), vector(150), vector(150)},
               .attrs = FrameNormAttrs{},
               .unread = {0, 0, 1}},
              {.operands = {example({3, 4, 2, 24}, DType::bf16),
                            example({3, 4, 2, 24}, DType::bf16), vector(24), lengths(3, 0, 4),
                            vector(24), vector(24)},
               .attrs = FrameNormAttrs{1e-5f, true}},
              {.operands = {example({37, 5, 50}, DType::f16), example({37, 5, 50}, DType::f16),
                            vector(50), lengths(5, 0, 37), vector(50), vector(50)},
               .attrs = FrameNormAttrs{}},
          };
        },
};

const OpDef frame_norm_infer_op{
    .name = "frame_norm_infer",
    .formula = "gamma (x - mean) / sqrt(variance + eps) + beta in valid frames, 0 elsewhere",
    .infer =
        [](SpecSpan in, const Attrs& attrs) {
          check("frame_norm_infer", in, 1, 6, attrs);
          return Specs{in[0]};
        },
    .shares = {{0, 0}},
    .cpu = {.run = run_infer,
            .prepare = [](const Device&, SpecSpan in, SpecSpan,
                          const Attrs&) { return Prepared{.workspace = in[0].shape.back() * 4}; }},
    .cuda = &frame_norm_infer_cuda,
    .examples =
        [] {
          auto vector = [](int64_t c) { return example({c}, DType::f32, 0.5f, 2); };
          return std::vector<Example>{
              {.operands = {example({4, 3, 5}), vector(5), vector(5), lengths(3, 0, 4), vector(5),
                            vector(5)},
               .attrs = FrameNormAttrs{}},
              {.operands = {example({5, 111, 150}), vector(150), vector(150), lengths(5, 0, 111),
                            vector(150), vector(150)},
               .attrs = FrameNormAttrs{0.1f, true}},
              {.operands = {example({4, 3, 24}, DType::bf16), vector(24), vector(24),
                            lengths(3, 0, 4), vector(24), vector(24)},
               .attrs = FrameNormAttrs{}},
              {.operands = {example({4, 3, 5}, DType::f16), vector(5), vector(5), lengths(3, 0, 4),
                            vector(5), vector(5)},
               .attrs = FrameNormAttrs{}},
          };
        },
};

FrameNorm frame_norm(Val x, Val gamma, Val beta, Val lengths, FrameNormAttrs attrs) {
  const auto out = x.builder->emit(frame_norm_op, {x, gamma, beta, lengths}, attrs);
  for (size_t i : {1, 2, 3}) x.builder->program().value(out[i].id).role = Role::statistic;
  return {out[0], out[1], out[2], out[3]};
}

Val frame_norm_infer(Val x, Val gamma, Val beta, Val lengths, Val mean, Val variance,
                     FrameNormAttrs attrs) {
  return x.builder->emit1(frame_norm_infer_op, {x, gamma, beta, lengths, mean, variance}, attrs);
}

}  // namespace pal
