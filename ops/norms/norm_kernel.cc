// The statistics of a batch, and the operands of norms.
#include "ops/norms/norm_kernel.h"

#include <algorithm>

namespace pal {
namespace {

template <class T>
void moments(const Queue& queue, const AllRows& q, const T* x, float* partial, const Moments& out) {
  const int64_t step = q.chunk(), channels = q.channels;
  parallel_chunks(queue, q.frames, step, [&](int64_t begin, int64_t end) {
    float* own = partial + begin / step * 2 * channels;
    const T* first = x + begin * channels;
    chunk_moments(
        q, x, begin, end, [first](int64_t c) { return load(first, c); }, own, own + channels);
  });
  combine_moments(
      queue, channels, q.chunks(), double(q.frames),
      [&](int64_t k, int64_t c) -> ChunkMoments {
        const float* own = partial + k * 2 * channels + c;
        const double n = double(std::min(step, q.frames - k * step));
        const double base = double(load(x, k * step * channels + c));
        return {n, n * base + double(own[0]), double(own[channels])};
      },
      out);
}

}  // namespace

Prepared prepare_batch_norm(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = (AllRows(in[0]).chunks() + 1) * 2 * in[0].shape.back() * 4};
}
Prepared prepare_channels(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = in[0].shape.back() * 4};
}

void batch_moments(const Queue& queue, const void* x, const TensorSpec& spec, float* partial,
                   const Moments& out) {
  by_float_type(spec.dtype, [&]<class T>(T) {
    moments(queue, AllRows(spec), static_cast<const T*>(x), partial, out);
  });
}

BatchScale batch_scale(const KernelArgs& a, float eps) {
  const AllRows q(a.in_spec[0]);
  const float* gamma = a.input(1);
  float* partial = reinterpret_cast<float*>(a.workspace);
  float* scale = partial + q.chunks() * 2 * q.channels;
  float* mean = a.out[1] ? a.output(1) : scale + q.channels;
  float* rstd = a.out[2] ? a.output(2) : scale;  // may be written over, channel by channel
  batch_moments(a.queue, a.in[0], a.in_spec[0], partial, {mean, rstd, a.output(3), eps});
  if (a.out[0]) {
    for (int64_t c = 0; c < q.channels; ++c) scale[c] = gamma[c] * rstd[c];
  }
  return {mean, scale};
}

void require_norm_operands(SpecSpan in, size_t images, size_t count, int batch_axis) {
  const bool frames = batch_axis != kNone;
  require(in.size() == count, "takes ", count, " operands");
  require(in[0].shape.rank() >= (frames ? 3 : 2) && is_float(in[0].dtype) && !in[0].layout &&
              in[0].numel() > 0,
          in[0], ": needs plain floats ", (frames ? "(T, B, .., C)" : "(.., C)"));
  for (size_t i = 1; i < count; ++i) {
    const TensorSpec wanted = i < images         ? in[0]
                              : frames && i == 3 ? TensorSpec{{in[0].shape[batch_axis]}, DType::i32}
                                                 : TensorSpec{{in[0].shape.back()}};
    require(in[i] == wanted, "operand ", i, " should be ", wanted, ", is ", in[i]);
  }
}

std::vector<ExampleOperand> norm_operands(const Shape& x, size_t images, size_t vectors,
                                          DType type) {
  std::vector<ExampleOperand> operands(images, example(x, type));
  operands.resize(images + vectors, example({x.back()}, DType::f32, 0.5f, 2));
  return operands;
}

}  // namespace pal
