// Scaled dot-product attention with several heads (Vaswani et al. 2017, section 3.2), time-major:
// as one operator that keeps nothing of size queries x keys (after Dao et al. 2022,
// "FlashAttention"), and in elementary nodes. For one query beside a cache: attention_step.h.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef attention_grad_op, attention_op;
[[gnu::weak]] extern const Backend attention_grad_cuda, attention_cuda;

struct AttentionAttrs {
  int64_t heads = 1;
  bool causal = false;
  float dropout = 0;
  int64_t stream = 0;
  auto fields() const {
    return std::tuple{field("heads", heads), field("causal", causal), field("dropout", dropout),
                      field("stream", stream)};
  }
};

// What a query may look at.
struct AttentionMask {
  Val lengths = {};     // i32 (B): the first lengths[b] keys of sentence b; absent: all
  bool causal = false;  // query t: keys 0 .. t; needs T = S
};

// q (T, B, D), k (S, B, D), v (S, B, D) -> (T, B, D), in heads of D / heads columns each:
//   out = dropout(softmax(q k^T / sqrt(D / heads))) v,   zero where a query may look at nothing.
// Element (b, head, t, s) of the softmax is number ((b H + head) T + t) S + s of the dropout's
// draws, which `scalars` (the step's) are needed for. Without dropout they may be absent. Columns
// of k and v may lie side by side, as of one product: k (S, B, 2 D) without v; or of all three,
// where keys belong to the queries: q (T, B, 3 D) without k and v. The gradient lies likewise.
Val attention(Val q, Val k, Val v, int64_t heads, AttentionMask mask = {}, float dropout = 0,
              Val scalars = {});

// The same in the nodes of the paper's Figure 2: product, scale, mask and softmax, dropout (with a
// mask that is a value of its own), product. Sums are added up in another order.
Val attention_unfused(Val q, Val k, Val v, int64_t heads, AttentionMask mask = {},
                      float dropout = 0, Val scalars = {});

}  // namespace pal
