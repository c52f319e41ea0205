// reverse: rows (t, b) of sequences with lengths of their own.
#include "ops/kernels/cuda_row_copies.h"
#include "ops/tensors/reverse.h"

namespace pal {
namespace {

struct ReversedRow {  // row (t, b) of (T, B, ..)
  const int32_t* lengths;
  int64_t steps, batch;
  __device__ int64_t operator()(int64_t r) const {
    const int64_t t = divide(r, batch), b = r - t * batch, length = lengths[b];
    if (length < 0 || length > steps) return kNoRow;
    return (t < length ? length - 1 - t : t) * batch + b;
  }
};

void run_reverse(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t bytes = trailing_numel(shape, 2) * bits(a.in_spec[0].dtype) / 8;
  copy_rows_async(a, a.out[0], bytes, a.in[0], bytes, shape[0] * shape[1], bytes,
                  ReversedRow{a.input<int32_t>(1), shape[0], shape[1]});
}

}  // namespace

const Backend reverse_cuda{.run = run_reverse};

}  // namespace pal
