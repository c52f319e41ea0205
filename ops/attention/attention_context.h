// Attention's products over source positions, time-major: S positions, batch B, width H. The three
// are each other's gradients. All are bound by memory, and a row whose coefficient is zero (a
// masked position) is not touched.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef add_outer_op, attention_context_op, dot_score_op;
[[gnu::weak]] extern const Backend add_outer_cuda, attention_context_cuda, dot_score_cuda;

// weights (S, B), values (S, B, H) -> context (B, H) = sum over s of weights[s,b] values[s,b,:].
Val attention_context(Val weights, Val values);

// keys (S, B, H), query (B, H) -> (S, B): keys[s,b,:] . query[b,:] (Luong's dot score).
Val dot_score(Val keys, Val query);

// sum (S, B, H) (or absent: zeros) + weights[s,b] x[b,:], weights (S, B), x (B, H).
Val add_outer(Val weights, Val x, Val sum = {});

}  // namespace pal
