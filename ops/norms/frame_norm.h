// Batch normalisation of padded sequences over their valid frames alone.
#pragma once
#include <algorithm>

#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef frame_norm_grad_op, frame_norm_infer_op, frame_norm_op;
[[gnu::weak]] extern const Backend frame_norm_grad_cuda, frame_norm_infer_cuda, frame_norm_cuda;

struct FrameNormAttrs {
  float eps = 1e-5f;
  bool batch_first = false;  // frames lie as (B, T, .., C) instead of (T, B, .., C)
  auto fields() const { return std::tuple{field("eps", eps), field("batch_first", batch_first)}; }
};

struct FrameNorm {
  Val y;
  // Per channel (C), no gradient flows through them: the valid frames' mean, 1/sqrt(variance +
  // eps), and the unbiased variance, which the running variance is moved towards.
  Val mean, rstd, variance;
};

// x (T, B, .., C), f32 gamma (C) and beta (C), lengths i32 (B) -> y = gamma (x - mean) rstd + beta,
// of x's type, for frames t < lengths[b], 0 beyond: a result depends on no padding, and what
// follows finds zeros there. Without a valid frame mean and variance are 0.
FrameNorm frame_norm(Val x, Val gamma, Val beta, Val lengths, FrameNormAttrs attrs = {});

// The same with given statistics. Not differentiable.
Val frame_norm_infer(Val x, Val gamma, Val beta, Val lengths, Val mean, Val variance,
                     FrameNormAttrs attrs = {});

// How x (T, B, .., C), or (B, T, .., C), divides: frames of `rows` rows of `channels`. Sums go
// through chunks of frames, on every device.
struct FrameRows {
  int64_t frames, batch, rows, channels;
  bool batch_first;
  int64_t inner;  // extent of the second axis
  const int32_t* lengths;

  FrameRows(const TensorSpec& x, const Attrs& attrs, const int32_t* frame_lengths)
      : batch_first(attrs.as<FrameNormAttrs>().batch_first), lengths(frame_lengths) {
    frames = x.shape[0] * x.shape[1], batch = x.shape[batch_first ? 0 : 1];
    channels = x.shape.back(), rows = x.numel() / (frames * channels);
    inner = x.shape[1];
  }
  // At these places of the first two axes.
  PAL_HD bool valid(int64_t outer, int64_t second) const {
    return batch_first ? second < lengths[outer] : outer < lengths[second];
  }
  bool valid(int64_t frame) const { return valid(frame / inner, frame % inner); }
  int64_t elements() const { return rows * channels; }                        // of a frame
  int64_t chunk() const { return std::max<int64_t>(1, 16384 / elements()); }  // frames
  int64_t chunks() const { return (frames + chunk() - 1) / chunk(); }
  // Rows of the valid frames among [begin, end).
  int64_t count(int64_t begin, int64_t end) const {
    int64_t n = 0;
    for (int64_t f = begin; f < end; ++f) n += valid(f) ? rows : 0;
    return n;
  }
  // The first element of the first valid frame among them; kNone: none is valid.
  int64_t first_row(int64_t begin, int64_t end) const {
    while (begin < end && !valid(begin)) ++begin;
    return begin < end ? begin * elements() : kNone;
  }
  // f(first element of a row) for every row of the valid frames among [begin, end).
  template <class F> void each_row(int64_t begin, int64_t end, F f) const {
    for (int64_t frame = begin; frame < end; ++frame) {
      if (!valid(frame)) continue;
      for (int64_t r = 0; r < rows; ++r) f((frame * rows + r) * channels);
    }
  }
};

}  // namespace pal
