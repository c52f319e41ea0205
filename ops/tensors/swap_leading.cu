// swap_leading: a row for every pair of leading indices.
#include "ops/kernels/cuda_row_copies.h"
#include "ops/tensors/swap_leading.h"

namespace pal {
namespace {

struct SwappedRow {  // row (j, i) of (columns, rows, ..)
  int64_t rows, columns;
  __device__ int64_t operator()(int64_t r) const {
    const int64_t j = divide(r, rows), i = r - j * rows;
    return i * columns + j;
  }
};

void run_swap_leading(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t bytes = trailing_numel(shape, 2) * bits(a.in_spec[0].dtype) / 8;
  copy_rows_async(a, a.out[0], bytes, a.in[0], bytes, shape[0] * shape[1], bytes,
                  SwappedRow{shape[0], shape[1]});
}

}  // namespace

const Backend swap_leading_cuda{.run = run_swap_leading};

}  // namespace pal
