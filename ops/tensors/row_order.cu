// reverse and swap_leading: a row for every pair of leading indices.
#include "ops/kernels/cuda_row_copies.h"
#include "ops/tensors/row_order.h"

namespace pal {
namespace {

template <class Source> void run_row_order(const KernelArgs& a, Source source) {
  const Shape& shape = a.in_spec[0].shape;
  const int64_t bytes = trailing_numel(shape, 2) * bits(a.in_spec[0].dtype) / 8;
  copy_rows_async(a, a.out[0], bytes, a.in[0], bytes, shape[0] * shape[1], bytes, source);
}
void run_reverse(const KernelArgs& a) {
  const Shape& shape = a.in_spec[0].shape;
  run_row_order(a, ReversedRow{a.input<int32_t>(1), shape[0], shape[1]});
}
void run_swap_leading(const KernelArgs& a) {
  run_row_order(a, SwappedRow{a.in_spec[0].shape[0], a.in_spec[0].shape[1]});
}

}  // namespace

const Backend reverse_cuda{.run = run_reverse};
const Backend swap_leading_cuda{.run = run_swap_leading};

}  // namespace pal
