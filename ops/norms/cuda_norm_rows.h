// Which rows of channels count: all, or those of valid frames.
#pragma once
#include "ops/norms/cuda_norm.h"
#include "ops/norms/frame_rows.h"
#include "ops/norms/norm_kernel.h"

namespace pal {

struct EveryRow {
  static constexpr bool kAll = true;
  __device__ bool operator()(int64_t) const { return true; }
};
inline NormRows all_norm_rows(const TensorSpec& x) {
  const int64_t channels = x.shape.back(), rows = x.numel() / channels;
  const int64_t per_chunk = batch_norm_rows(channels);
  return {rows, channels, per_chunk, blocks_of(rows, per_chunk), true};
}

struct ValidRows {
  static constexpr bool kAll = false;
  FrameRows frames;
  __device__ bool operator()(int64_t row) const {
    const int64_t frame = divide(row, frames.rows), outer = divide(frame, frames.inner);
    return frames.valid(outer, frame - outer * frames.inner);
  }
};
inline NormRows norm_rows(const FrameRows& f) {
  return {f.frames * f.rows, f.channels, f.chunk() * f.rows, f.chunks()};
}

}  // namespace pal
