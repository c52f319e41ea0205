// Gates: values that every update of a step reads, and which say whether and how it is applied.
#pragma once
#include <cmath>
#include <vector>

#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"
#include "ops/kernels/gate.h"

namespace pal {

extern const OpDef clip_norm_gate_op, encodings_fit_op, gate_and_op, sum_of_squares_op;
[[gnu::weak]] extern const Backend clip_norm_gate_cuda, encodings_fit_cuda, gate_and_cuda,
    sum_of_squares_cuda;

struct ClipNormAttrs {
  float max_norm = 0;        // 0: gradients are not clipped
  bool check_finite = true;  // no update where the norm or the loss is not finite
  auto fields() const {
    return std::tuple{field("max_norm", max_norm), field("check_finite", check_finite)};
  }
};

// The gate from the sum of all squares; `loss` may be null.
PAL_HD inline Gate make_gate(double squares, double loss_scale, const float* loss,
                             const ClipNormAttrs& attrs) {
  const double norm = sqrt(squares) / loss_scale, most = double(attrs.max_norm);
  const bool finite = norm - norm == 0 && (!loss || *loss - *loss == 0);
  const double wanted = most / (norm + 1e-6), clip = most > 0 && wanted < 1.0 ? wanted : 1.0;
  return {float(clip / loss_scale), finite || !attrs.check_finite ? 1.0f : 0.0f, float(norm), 0};
}

// f32[1]: the sum of the squares of g's elements, of any shape and floating-point type.
Val sum_of_squares(Val g);

// A gate that lets updates apply where each of the counts, i32[2] {nonzeros, capacity} of a sparse
// encoding (ops/encodings/ssdc.h), is within its capacity; else it says of how many it is not.
Val encodings_fit(const std::vector<Val>& counts);

// The first gate, shut where the second is shut. Their overflows are added.
PAL_HD inline Gate gate_and(const Gate& a, const Gate& b) {
  return {a.scale, b.apply != 0 ? a.apply : 0.0f, a.norm, a.overflows + b.overflows};
}
Val gate_and(Val a, Val b);

// From the step's scalars, any sums of squares of gradients (f32[1] each), and optionally the
// loss f32[1] (absent: it is not looked at): norm = sqrt(sum of partials) / loss_scale, and
// scale = min(1, max_norm / (norm + 1e-6)) / loss_scale, as PyTorch's clip_grad_norm_. -> f32[4]
Val clip_norm_gate(Val scalars, Val loss, const std::vector<Val>& partials,
                   ClipNormAttrs attrs = {});

}  // namespace pal
