// frame_norm: the rows of valid frames; lengths are operand 3.
#include "ops/norms/cuda_norm.h"
#include "ops/norms/cuda_norm_grad.h"
#include "ops/norms/cuda_norm_rows.h"
#include "ops/norms/frame_norm.h"

namespace pal {
namespace {

bool is_batch_first(const Attrs& attrs) { return attrs.as<FrameNormAttrs>().batch_first; }
FrameRows frames_of(const KernelArgs& a) {
  return {a.in_spec[0], is_batch_first(a.attrs), a.input<int32_t>(3)};
}
void run_frames(const KernelArgs& a) {
  const FrameRows f = frames_of(a);
  norm_forward(a, norm_rows(f), ValidRows{f}, a.attrs.as<FrameNormAttrs>().eps);
}
void run_frames_infer(const KernelArgs& a) {
  const FrameRows f = frames_of(a);
  const NormRows r = norm_rows(f);
  normalize_elements(a, r, ValidRows{f}, a.input(4), a.input(2),
                     FromVariance{floats(a.input(1), r.channels), floats(a.input(5), r.channels),
                                  a.attrs.as<FrameNormAttrs>().eps});
}
void run_frames_grad(const KernelArgs& a) {
  const FrameRows f = frames_of(a);
  norm_gradient(a, norm_rows(f), ValidRows{f}, a.input(4), a.input(5));
}
void run_frames_apply(const KernelArgs& a) {
  const FrameRows f = frames_of(a);
  const NormRows r = norm_rows(f);
  normalize_elements(a, r, ValidRows{f}, a.input(4), a.input(2),
                     FromDeviation{floats(a.input(1), r.channels), floats(a.input(5), r.channels)});
}
Prepared prepare_frames(const Device&, SpecSpan in, SpecSpan, const Attrs& attrs) {
  return prepare_norm(norm_rows(FrameRows(in[0], is_batch_first(attrs), nullptr)));
}

}  // namespace

const Backend frame_norm_apply_cuda{.run = run_frames_apply};
const Backend frame_norm_cuda{.run = run_frames, .prepare = prepare_frames};
const Backend frame_norm_grad_cuda{.run = run_frames_grad, .prepare = prepare_frames};
const Backend frame_norm_infer_cuda{.run = run_frames_infer};

}  // namespace pal
