// Scaled dot-product attention of one query a sentence beside a cache of keys and values.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef attention_step_op;
[[gnu::weak]] extern const Backend attention_step_cuda;

struct AttentionStepAttrs {
  int64_t heads = 1;
  auto fields() const { return std::tuple{field("heads", heads)}; }
};

// One query a sentence: q (B, D), keys and values (S, B, D), of which the first lengths[b] count,
// lengths i32 (B), or i32 (1) for all; and where they are given, `key` and `value` (B, D) after
// them: the query's own. -> (B, D). For decoding; not differentiable.
Val attention_step(Val q, Val keys, Val values, Val lengths, int64_t heads, Val key = {},
                   Val value = {});

}  // namespace pal
