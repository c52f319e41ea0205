// Sparse storage, dense compute (Gist, §IV-A): a feature map with many zeros is stored as its
// nonzero elements alone, and made dense again before it is read.
#pragma once
#include "core/op.h"
#include "core/val.h"
#include "ops/encodings/ssdc_layout.h"

namespace pal {

extern const OpDef count_nonzeros_op, ssdc_decode_op, ssdc_encode_op;
[[gnu::weak]] extern const Backend count_nonzeros_cuda, ssdc_decode_cuda, ssdc_encode_cuda;

struct Ssdc {
  Val encoded;
  Val count;  // i32[2], {nonzeros of x, capacity}: where there are more, the encoding is cut
};
// x plain f32 or bf16, of less than 2^31 elements. The same bytes for any number of threads.
Ssdc ssdc_encode(Val x, const SsdcAttrs& attrs);

// The dense tensor. Whatever the bytes of the encoding are, nothing outside of it is read, and
// nothing outside of the result written. ProgramError where the operand is no encoding.
Val ssdc_decode(Val encoded);

// Elements [begin, end) of an encoding as f32. On the calling thread.
void ssdc_read(const TensorSpec& encoded, const void* from, int64_t begin, int64_t end, float* to);

// i32[1]: how many elements of x (plain, f32 or bf16) are not +0.
Val count_nonzeros(Val x);

}  // namespace pal
