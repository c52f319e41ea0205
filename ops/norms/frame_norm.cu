// frame_norm: the rows of valid frames; lengths are operand 3.
#include "ops/norms/cuda_norm.h"
#include "ops/norms/frame_norm.h"

namespace pal {
namespace {

struct ValidRows {
  FrameRows frames;
  __device__ bool operator()(int64_t row) const {
    const int64_t frame = divide(row, frames.rows), outer = divide(frame, frames.inner);
    return frames.valid(outer, frame - outer * frames.inner);
  }
};

NormRows rows_of(const FrameRows& f) {
  return {f.frames * f.rows, f.channels, f.chunk() * f.rows, f.chunks()};
}
FrameRows frames_of(const KernelArgs& a) { return {a.in_spec[0], a.attrs, a.input<int32_t>(3)}; }
void run_frames(const KernelArgs& a) {
  const FrameRows f = frames_of(a);
  norm_forward(a, rows_of(f), ValidRows{f}, a.attrs.as<FrameNormAttrs>().eps);
}
void run_frames_infer(const KernelArgs& a) {
  const FrameRows f = frames_of(a);
  normalize_elements(a, rows_of(f), ValidRows{f}, a.input(4), a.input(2),
                     FromVariance{a.input(1), a.input(5), a.attrs.as<FrameNormAttrs>().eps});
}
void run_frames_grad(const KernelArgs& a) {
  const FrameRows f = frames_of(a);
  norm_gradient(a, rows_of(f), ValidRows{f}, a.input(4), a.input(5));
}
Prepared prepare_frames(const Device&, SpecSpan in, SpecSpan, const Attrs& attrs) {
  return prepare_norm(rows_of(FrameRows(in[0], attrs, nullptr)));
}

}  // namespace

const Backend frame_norm_cuda{.run = run_frames, .prepare = prepare_frames};
const Backend frame_norm_grad_cuda{.run = run_frames_grad, .prepare = prepare_frames};
const Backend frame_norm_infer_cuda{.run = run_frames_infer};

}  // namespace pal
