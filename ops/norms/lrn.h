// Local response normalisation across channels (Krizhevsky et al. 2012, section 3.3).
#pragma once
#include "core/op.h"
#include "core/val.h"
#include "ops/kernels/math.h"

namespace pal {

extern const OpDef lrn_grad_op, lrn_op;
[[gnu::weak]] extern const Backend lrn_grad_cuda, lrn_cuda;

struct LrnAttrs {
  int64_t size = 5;  // channels of a window, centred on its own: odd
  float alpha = 1e-4f, beta = 0.75f, k = 2;
  auto fields() const {
    return std::tuple{field("size", size), field("alpha", alpha), field("beta", beta),
                      field("k", k)};
  }
};

// x (.., C), y like it: y[c] = x[c] / (k + alpha sum x[j]^2)^beta over the window's channels j.
// (alpha multiplies the sum, as in the paper; PyTorch and Caffe divide it by the size first.)
Val lrn(Val x, const LrnAttrs& attrs = {});

constexpr int64_t kLrnMostChannels = 2048;  // of a row, whose sums lie on the stack or on the chip

// The formulas of one channel; `squares` and `parts` are sums over its window.
struct LrnFormula {
  float alpha, beta, k;
  explicit LrnFormula(const LrnAttrs& s) : alpha(s.alpha), beta(s.beta), k(s.k) {}
  PAL_HD float denominator(float squares) const { return k + alpha * squares; }
  PAL_HD float power(float d) const { return exp(-beta * log(d)); }
  PAL_HD float part(float dy, float x, float power_of_d, float d) const {
    return dy * x * power_of_d / d;
  }
  PAL_HD float gradient(float dy, float x, float power_of_d, float parts) const {
    return dy * power_of_d - 2 * alpha * beta * x * parts;
  }
};

}  // namespace pal
