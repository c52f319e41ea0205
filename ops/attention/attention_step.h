// Scaled dot-product attention of one query a sentence beside a cache of keys and values.
#pragma once
#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef attention_step_op;
[[gnu::weak]] extern const Backend attention_step_cuda;

struct AttentionStepAttrs {
  int64_t heads = 1;
  auto fields() const { return std::tuple{field("heads", heads)}; }
};

// The row of keys[s] and values[s] that sentence b of `batch` reads.
PAL_HD inline int64_t cached_row(const int32_t* from, int64_t s, int64_t b, int64_t batch) {
  if (!from) return b;
  const int64_t row = from[s * batch + b];
  return row < 0 ? 0 : row < batch ? row : batch - 1;
}

// One query a sentence: q (B, D), keys and values (S, B, D), of which the first lengths[b] count,
// lengths i32 (B), or i32 (1) for all; and where they are given, `key` and `value` (B, D) after
// them: the query's own. `from`, i32 (S, B), where it is given: sentence b reads row from[s, b] of
// keys[s] and values[s], so that a beam's rows change places without being moved (a row outside
// [0, B) is the nearest one inside). -> (B, D). For decoding; not differentiable.
Val attention_step(Val q, Val keys, Val values, Val lengths, int64_t heads, Val key = {},
                   Val value = {}, Val from = {});

}  // namespace pal
