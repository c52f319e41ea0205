// Dropout (Srivastava et al., JMLR 2014), scaled where it keeps: y = x m, m in {0, 1/(1-p)}. Twice:
// with a mask that is a value of its own, as the papers' footprints count it (f32, or a bit per
// element: its readers need m > 0 alone), and replayed, with nothing kept at all. Both draw the
// same numbers for the same stream, so they give the same bits.
#pragma once
#include "core/op.h"
#include "core/philox.h"
#include "core/rewrite.h"
#include "core/val.h"
#include "ops/kernels/math.h"

namespace pal {

extern const OpDef dropout_apply_op, dropout_mask_op, dropout_op, dropout_add_op;
extern const Rewrite dropout_rewrite, dropout_add_rewrite;
[[gnu::weak]] extern const Backend dropout_apply_cuda, dropout_mask_cuda, dropout_cuda,
    dropout_add_cuda;

struct DropoutMaskAttrs {
  Shape shape;
  float p = 0;
  int64_t stream = 0;
  DType dtype = DType::f32;
  auto fields() const {
    return std::tuple{field("shape", shape), field("p", p), field("stream", stream),
                      field("dtype", dtype)};
  }
};
struct DropoutAttrs {
  float p = 0;
  int64_t stream = 0;
  auto fields() const { return std::tuple{field("p", p), field("stream", stream)}; }
};
struct DropoutApplyAttrs {
  float p = 0;
  auto fields() const { return std::tuple{field("p", p)}; }
};

// Floats of this spec: 0 with probability p, else 1/(1-p). `scalars` is the step's
// (ops/tensors/transfers.h), the stream a new one unless given.
Val dropout_mask(Val scalars, const TensorSpec& spec, float p, int64_t stream = kNone);
// x / (1-p) where mask > 0, else 0; the mask may be bits. x itself where p is 0.
Val dropout_apply(Val x, Val mask, float p);
// Both in one; its gradient draws the same numbers again. x itself where p is 0.
Val dropout(Val x, Val scalars, float p, int64_t stream = kNone);

PAL_HD inline float dropout_scale(float p) { return 1 / (1 - p); }
struct DropoutApply {
  using Attributes = DropoutApplyAttrs;
  float scale;
  PAL_HD explicit DropoutApply(float p) : scale(dropout_scale(p)) {}
  explicit DropoutApply(const DropoutApplyAttrs& attrs) : DropoutApply(attrs.p) {}
  PAL_HD float operator()(float x, float mask) const { return choose(mask > 0, x * scale, 0); }
};
// The factors of elements [first, first + n), 0 or dropout_scale(p), on the CPU; `first` is a
// multiple of 4, and `out` has room for n rounded up to one.
void dropout_factors(const RandomKey& key, int64_t first, int64_t n, float p, float* out);

// Element i's number is draw(key, i / 4).x[i % 4].
PAL_HD inline float dropout_factor(uint32_t bits, float p, float scale) {
  return uniform01(bits) >= p ? scale : 0;
}
// The least of the numbers that are kept, by which alone a kernel can tell them.
PAL_HD inline uint32_t dropout_least(float p) {
  const float x = p * 0x1p24f;  // exact, below 2^24
  const uint32_t whole = uint32_t(x);
  return (whole + uint32_t(float(whole) < x)) << 8;
}

}  // namespace pal
