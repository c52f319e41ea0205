// Columns of tensors laid side by side, cut out, and put back.
#include "ops/tensors/columns.h"
#include "ops/tensors/cuda_move.h"

namespace pal {
namespace {

// Columns [first, first + columns) of the output: inside [begin, begin + n) the part, added to the
// sum where there is one; elsewhere the sum, or zero.
template <class T>
__global__ void place_columns_kernel(T* out, const T* part, const T* sum, int64_t rows,
                                     int64_t width, int64_t begin, int64_t n, int64_t first,
                                     int64_t columns) {
  const int64_t i = thread_number();
  if (i >= rows * columns) return;
  const int64_t r = divide(i, columns), c = first + i - r * columns, at = r * width + c;
  const bool inside = c >= begin && c < begin + n;
  const int64_t from = r * n + c - begin;
  if (!sum)
    out[at] = inside ? part[from] : T{};
  else if (inside)
    store(out, at, load(sum, at) + load(part, from));
  else
    out[at] = sum[at];
}
void run_slice_columns_grad(const KernelArgs& a) {
  const auto [width, begin] = a.attrs.as<ColumnsGradAttrs>();
  const int64_t n = a.in_spec[0].shape.back(), rows = row_count(a.in_spec[0].shape);
  const bool in_place = a.input<void>(1) == a.out[0];  // the other columns are there already
  const int64_t first = in_place ? begin : 0, columns = in_place ? n : width;
  by_float_type(a.out_spec[0].dtype, [&, width = width, begin = begin]<class T>(T) {
    launch(place_columns_kernel<T>, {blocks_of(rows * columns, kThreads)}, a, a.output<T>(0),
           a.input<T>(0), a.input<T>(1), rows, width, begin, n, first, columns);
  });
}

}  // namespace

const Backend concatenate_cuda{.run = run_concatenate<CudaMove>};
const Backend slice_columns_cuda{.run = run_slice_columns<CudaMove, ColumnsAttrs>};
const Backend slice_columns_grad_cuda{.run = run_slice_columns_grad};

}  // namespace pal
