// How well each source position fits the decoder's query: Bahdanau's score, fused and in the
// elementary nodes that Echo recomputes. Luong's is dot_score (ops/attention/attention_context.h),
// scaled with scale_by (ops/sums/scale_by.h).
#pragma once
#include <algorithm>

#include "core/op.h"
#include "core/rewrite.h"
#include "core/val.h"
#include "ops/kernels/math.h"
#include "ops/kernels/rows.h"

namespace pal {

extern const OpDef mlp_score_grad_op, mlp_score_op, mlp_score_replay_grad_op;
extern const Rewrite mlp_score_replay_rewrite;
[[gnu::weak]] extern const Backend mlp_score_grad_cuda, mlp_score_cuda, mlp_score_replay_grad_cuda;

// keys (S, B, A), query (B, A), v (A) -> (S, B): v . tanh(keys[s,b,:] + query[b,:]). Nothing of
// size (S, B, A) is made; the gradient computes the tanh again.
Val mlp_score(Val keys, Val query, Val v);

// The same as add_broadcast, tanh, dot_last: two values of size (S, B, A), as in Echo's Figure 2.
Val mlp_score_unfused(Val keys, Val query, Val v);

// Rows of the batch, eight at most, whose sums of dv are added up before those of others are.
inline int64_t score_rows(int64_t batch) { return std::min<int64_t>(8, rows_per_partial(batch)); }

struct MlpScore {
  static constexpr bool kHasWeights = true;
  PAL_HD float operator()(float key, float query, float v) const { return v * tanh(key + query); }
};

}  // namespace pal
