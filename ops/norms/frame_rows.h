// Padded sequences as rows of channels, of which those of valid frames count.
#pragma once
#include <algorithm>

#include "core/host_device.h"
#include "core/op.h"

namespace pal {

// How x (T, B, .., C), or (B, T, .., C), divides: frames of `rows` rows of `channels`. Sums go
// through chunks of frames, on every device.
struct FrameRows {
  int64_t frames, batch, rows, channels;
  bool batch_first;
  int64_t inner;  // extent of the second axis
  const int32_t* lengths;

  FrameRows(const TensorSpec& x, bool is_batch_first, const int32_t* frame_lengths)
      : batch_first(is_batch_first), lengths(frame_lengths) {
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
