// Keeps the state of a row whose sequence has ended.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef hold_grad_op, hold_op;
[[gnu::weak]] extern const Backend hold_grad_cuda, hold_cuda;

struct HoldAttrs {
  int64_t t = 0;
  auto fields() const { return std::tuple{field("t", t)}; }
};

// x (B, ..) where t < lengths[b], else prev (B, ..).
Val hold(Val x, Val prev, Val lengths, int64_t t);

}  // namespace pal
