// Local response normalisation across channels (Krizhevsky et al. 2012, section 3.3).
#pragma once
#include "core/op.h"

namespace pal {

extern const OpDef lrn_grad_op, lrn_op;

struct LrnAttrs {
  int64_t size = 5;  // channels of a window, centred on its own: odd
  float alpha = 1e-4f, beta = 0.75f, k = 2;
  auto fields() const {
    return std::tuple{field("size", size), field("alpha", alpha), field("beta", beta),
                      field("k", k)};
  }
};

// x (.., C), f32: y[c] = x[c] / (k + alpha sum x[j]^2)^beta over the window's channels j. (alpha
// multiplies the sum, as in the paper; PyTorch and Caffe divide it by the size first.)
Val lrn(Val x, const LrnAttrs& attrs = {});

}  // namespace pal
