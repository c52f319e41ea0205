// The attention kernels: one head of one sentence at a time, in tiles of queries and keys whose
// scores stay in the first-level cache.
#pragma once
#include <cstdint>

#include "core/parallel.h"
#include "core/philox.h"
#include "core/spec.h"

namespace pal {

constexpr int64_t kWidestHead = 256;

// A call of attention, spelled out. Heads lie side by side in rows of heads * width elements, which
// are so far apart as `q_pitch` and `kv_pitch` say, in elements; the same holds for the gradients.
// Rows of the result have nothing between them.
struct AttentionCall {
  int64_t queries, keys, batch, heads, width;
  DType type;              // of q, k, v, out and their gradients
  const int32_t* lengths;  // (B), or null: all keys
  bool causal;
  float dropout;  // 0: none
  RandomKey key;  // of the dropout
  int64_t q_pitch, kv_pitch;
};

// -> out (T, B, D), lse f32 (B, H, T): log sum exp of the scaled scores, 0 where there is none.
// Either may be null. out may lie over q.
void attention_forward(const Queue& queue, const AttentionCall& call, const void* q, const void* k,
                       const void* v, void* out, float* lse);
// -> dq, dk, dv, each of which may be null. A head's dq is added up tile by tile of the keys, in
// f32: in itself where it is f32, else in `dq_sums`, of so many bytes (0: none) on any worker.
void attention_backward(const Queue& queue, const AttentionCall& call, const void* q, const void* k,
                        const void* v, const void* out, const float* lse, const void* dout,
                        void* dq, void* dk, void* dv, float* dq_sums);
int64_t dq_sums_bytes(DType type, int64_t queries, int64_t width);

}  // namespace pal
