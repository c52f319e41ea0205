// Operators that move elements: copies, views, rows and columns, embeddings. What is contiguous is
// left to the copy engine's cudaMemcpyAsync; the rest moves in the widest words that all addresses
// and strides are multiples of.
#include "ops/elementwise/add.h"
#include "ops/kernels/cuda.h"
#include "ops/kernels/cuda_elements.h"
#include "ops/kernels/operands.h"
#include "ops/recurrent/lstm.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

// Where row r of a copy comes from; kNoRow: from nowhere, the row becomes NaNs (all bits set).
constexpr int64_t kNoRow = -1;
struct SameRow {
  __device__ int64_t operator()(int64_t r) const { return r; }
};
struct RowOfId {  // an id outside the table: the NaN guard stops the step
  const int32_t* ids;
  int64_t table;
  __device__ int64_t operator()(int64_t r) const {
    return uint32_t(ids[r]) < uint32_t(table) ? ids[r] : kNoRow;
  }
};
struct ReversedRow {  // row (t, b) of (T, B, ..)
  const int32_t* lengths;
  int64_t steps, batch;
  __device__ int64_t operator()(int64_t r) const {
    const int64_t t = divide(r, batch), b = r - t * batch, length = lengths[b];
    if (length < 0 || length > steps) return kNoRow;
    return (t < length ? length - 1 - t : t) * batch + b;
  }
};

struct SwappedRow {  // row (j, i) of (columns, rows, ..)
  int64_t rows, columns;
  __device__ int64_t operator()(int64_t r) const {
    const int64_t j = divide(r, rows), i = r - j * rows;
    return i * columns + j;
  }
};

template <class W> __device__ W all_bits() {
  if constexpr (sizeof(W) == 16)
    return make_uint4(~0u, ~0u, ~0u, ~0u);
  else
    return W(~W(0));
}

// `rows` rows of `words` words, a thread a word.
template <class W, class Source>
__global__ void copy_rows_kernel(W* to, int64_t to_stride, const W* from, int64_t from_stride,
                                 int64_t rows, int64_t words, Source source) {
  const int64_t i = thread_number();
  if (i >= rows * words) return;
  const int64_t r = divide(i, words), w = i - r * words, s = source(r);
  to[r * to_stride + w] = s == kNoRow ? all_bits<W>() : from[s * from_stride + w];
}

template <class W, class Source>
void copy_words(const KernelArgs& a, void* to, int64_t to_stride, const void* from,
                int64_t from_stride, int64_t rows, int64_t bytes, Source source) {
  const int64_t size = sizeof(W), words = bytes / size;
  launch(copy_rows_kernel<W, Source>, {blocks_of(rows * words, kThreads)}, kThreads, 0,
         stream_of(a), static_cast<W*>(to), to_stride / size, static_cast<const W*>(from),
         from_stride / size, rows, words, source);
}

// Rows of `bytes` bytes at distances `to_stride` and `from_stride`.
template <class Source>
void copy_rows_async(const KernelArgs& a, void* to, int64_t to_stride, const void* from,
                     int64_t from_stride, int64_t rows, int64_t bytes, Source source) {
  if (rows == 0 || bytes == 0) return;
  const uint64_t all = uint64_t(reinterpret_cast<uintptr_t>(to)) |
                       uint64_t(reinterpret_cast<uintptr_t>(from)) | uint64_t(to_stride) |
                       uint64_t(from_stride) | uint64_t(bytes);
  if (all % 16 == 0) {
    return copy_words<uint4>(a, to, to_stride, from, from_stride, rows, bytes, source);
  }
  if (all % 4 == 0) {
    return copy_words<uint32_t>(a, to, to_stride, from, from_stride, rows, bytes, source);
  }
  if (all % 2 == 0) {
    return copy_words<uint16_t>(a, to, to_stride, from, from_stride, rows, bytes, source);
  }
  copy_words<uint8_t>(a, to, to_stride, from, from_stride, rows, bytes, source);
}

int64_t rows_of(const TensorSpec& spec) { return leading_numel(spec.shape, spec.shape.rank() - 1); }
int64_t row_bytes(const TensorSpec& spec) { return spec.shape.back() * bits(spec.dtype) / 8; }
int64_t leading_row_bytes(const TensorSpec& spec) {
  return trailing_numel(spec.shape, 1) * bits(spec.dtype) / 8;
}

void run_copy(const KernelArgs& a) {
  if (a.out[0]) copy_async(a, a.out[0], a.in[0], a.out_spec[0].bytes());
}
void run_slice(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t begin = a.attrs.as<SliceAttrs>().begin;
  copy_async(a, a.out[0], a.input<std::byte>(0) + begin * leading_row_bytes(a.in_spec[0]),
             a.out_spec[0].bytes());
}
void run_slice_grad(const KernelArgs& a) {
  if (!a.out[0]) return;
  const DType type = a.out_spec[0].dtype;
  const int64_t row = leading_row_bytes(a.out_spec[0]);
  const int64_t begin = a.attrs.as<SliceGradAttrs>().begin * row, part = a.in_spec[0].bytes();
  const int64_t after = a.out_spec[0].bytes() - begin - part;
  std::byte* out = a.output<std::byte>(0);
  const std::byte* sum = a.input<std::byte>(1);
  if (!sum) {
    zero_async(a, out, begin);
    copy_async(a, out + begin, a.in[0], part);
    return zero_async(a, out + begin + part, after);
  }
  copy_async(a, out, sum, begin);
  copy_async(a, out + begin + part, sum + begin + part, after);
  void* const in[] = {const_cast<std::byte*>(sum + begin), a.in[0]};
  void* const middle[] = {out + begin};
  const TensorSpec in_spec[] = {{a.in_spec[0].shape, type}, a.in_spec[0]};
  launch_map<2>({in, middle, in_spec, SpecSpan(in_spec, 1), a.attrs, nullptr, nullptr, a.queue},
                Add{});
}
void run_unbind(const KernelArgs& a) {
  const int64_t bytes = leading_row_bytes(a.in_spec[0]);
  for (size_t t = 0; t < a.out.size(); ++t) {
    if (a.out[t]) copy_async(a, a.out[t], a.input<std::byte>(0) + int64_t(t) * bytes, bytes);
  }
}
void run_stack(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t bytes = leading_row_bytes(a.out_spec[0]);
  for (size_t t = 0; t < a.in.size(); ++t) {
    std::byte* to = a.output<std::byte>(0) + int64_t(t) * bytes;
    if (a.in[t])
      copy_async(a, to, a.in[t], bytes);
    else
      zero_async(a, to, bytes);
  }
}

void run_concatenate(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t rows = rows_of(a.out_spec[0]), stride = row_bytes(a.out_spec[0]);
  std::byte* to = a.output<std::byte>(0);
  for (size_t k = 0; k < a.in.size(); ++k) {
    const int64_t bytes = row_bytes(a.in_spec[k]);
    copy_rows_async(a, to, stride, a.in[k], bytes, rows, bytes, SameRow{});
    to += bytes;
  }
}
void run_slice_columns(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t begin = a.attrs.as<ColumnsAttrs>().begin * bits(a.in_spec[0].dtype) / 8;
  const int64_t bytes = row_bytes(a.out_spec[0]);
  copy_rows_async(a, a.out[0], bytes, a.input<std::byte>(0) + begin, row_bytes(a.in_spec[0]),
                  rows_of(a.in_spec[0]), bytes, SameRow{});
}

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
  if (!a.out[0]) return;
  const auto [width, begin] = a.attrs.as<ColumnsGradAttrs>();
  const int64_t n = a.in_spec[0].shape.back(), rows = rows_of(a.in_spec[0]);
  const bool in_place = a.input<void>(1) == a.out[0];  // the other columns are there already
  const int64_t first = in_place ? begin : 0, columns = in_place ? n : width;
  by_float_type(a.out_spec[0].dtype, [&, width = width, begin = begin](auto zero) {
    using T = decltype(zero);
    launch(place_columns_kernel<T>, {blocks_of(rows * columns, kThreads)}, kThreads, 0,
           stream_of(a), a.output<T>(0), a.input<T>(0), a.input<T>(1), rows, width, begin, n, first,
           columns);
  });
}

void run_reverse(const KernelArgs& a) {
  if (!a.out[0]) return;
  const Shape& shape = a.in_spec[0].shape;
  const int64_t bytes = trailing_numel(shape, 2) * bits(a.in_spec[0].dtype) / 8;
  copy_rows_async(a, a.out[0], bytes, a.in[0], bytes, shape[0] * shape[1], bytes,
                  ReversedRow{a.input<int32_t>(1), shape[0], shape[1]});
}
void run_swap_leading(const KernelArgs& a) {
  if (!a.out[0]) return;
  const Shape& shape = a.in_spec[0].shape;
  const int64_t bytes = trailing_numel(shape, 2) * bits(a.in_spec[0].dtype) / 8;
  copy_rows_async(a, a.out[0], bytes, a.in[0], bytes, shape[0] * shape[1], bytes,
                  SwappedRow{shape[0], shape[1]});
}
void run_broadcast(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t width = a.in_spec[0].numel(), rows = width ? a.out_spec[0].numel() / width : 0;
  const int64_t bytes = a.in_spec[0].bytes();
  copy_rows_async(a, a.out[0], bytes, a.in[0], 0, rows, bytes, SameRow{});
}
void run_embedding(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t bytes = row_bytes(a.in_spec[0]);
  copy_rows_async(a, a.out[0], bytes, a.in[0], bytes, a.in_spec[1].numel(), bytes,
                  RowOfId{a.input<int32_t>(1), a.in_spec[0].shape[0]});
}

// hold: y[b] = x[b] where t < lengths[b], else prev[b]; eight elements of a row a thread.
__global__ void hold_kernel(Stored y, Stored x, Stored prev, const int32_t* lengths, int64_t t,
                            int64_t rows, int64_t width) {
  const int64_t g = thread_number(), per_row = (width + kGroup - 1) / kGroup;
  if (g >= rows * per_row) return;
  const int64_t row = divide(g, per_row), j = (g - row * per_row) * kGroup;
  const int n = group_size(j, width);
  float v[kGroup];
  load8(t < lengths[row] ? x : prev, row * width + j, n, v);
  store8(y, row * width + j, n, v);
}
void run_hold(const KernelArgs& a) {
  if (!a.out[0]) return;
  const int64_t rows = a.in_spec[0].shape[0], width = trailing_numel(a.in_spec[0].shape, 1);
  launch(hold_kernel, grid_of_groups(rows * groups_of(width)), kThreads, 0, stream_of(a),
         stored(a.out[0], a.out_spec[0], width), stored(a.in[0], a.in_spec[0], width),
         stored(a.in[1], a.in_spec[1], width), a.input<int32_t>(2), a.attrs.as<HoldAttrs>().t, rows,
         width);
}
// dx = dy where t < lengths[b], else 0; dprev the other way round, added to the sum.
__global__ void hold_grad_kernel(Stored dx, Stored dprev, Stored dy, Stored sum,
                                 const int32_t* lengths, int64_t t, int64_t rows, int64_t width) {
  const int64_t g = thread_number(), per_row = (width + kGroup - 1) / kGroup;
  if (g >= rows * per_row) return;
  const int64_t row = divide(g, per_row), j = (g - row * per_row) * kGroup, at = row * width + j;
  const int n = group_size(j, width);
  const bool live = t < lengths[row];
  float d[kGroup], x[kGroup], p[kGroup];
  load8(dy, at, n, d);
  if (sum.data) load8(sum, at, n, p);
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    x[k] = live ? d[k] : 0;
    const float held = live ? 0 : d[k];
    p[k] = sum.data ? p[k] + held : held;
  }
  if (dx.data) store8(dx, at, n, x);
  if (dprev.data) store8(dprev, at, n, p);
}
void run_hold_grad(const KernelArgs& a) {
  const TensorSpec& spec = a.in_spec[0];
  const int64_t rows = spec.shape[0], width = trailing_numel(spec.shape, 1);
  launch(hold_grad_kernel, grid_of_groups(rows * groups_of(width)), kThreads, 0, stream_of(a),
         stored(a.out[0], spec, width), stored(a.out[1], spec, width), stored(a.in[0], spec, width),
         stored(input_if_present(a, 2), spec, width), a.input<int32_t>(1),
         a.attrs.as<HoldAttrs>().t, rows, width);
}

}  // namespace

const Backend broadcast_leading_cuda{.run = run_broadcast};
const Backend concatenate_cuda{.run = run_concatenate};
const Backend copy_in_cuda{.run = run_copy};
const Backend copy_out_cuda{.run = run_copy};
const Backend embedding_cuda{.run = run_embedding};
const Backend hold_cuda{.run = run_hold};
const Backend hold_grad_cuda{.run = run_hold_grad};
const Backend reshape_cuda{.run = run_copy};
const Backend reverse_cuda{.run = run_reverse};
const Backend slice_columns_cuda{.run = run_slice_columns};
const Backend slice_columns_grad_cuda{.run = run_slice_columns_grad};
const Backend slice_cuda{.run = run_slice};
const Backend slice_grad_cuda{.run = run_slice_grad};
const Backend stack_cuda{.run = run_stack};
const Backend step_scalars_cuda{.run = run_copy};
const Backend swap_leading_cuda{.run = run_swap_leading};
const Backend unbind_cuda{.run = run_unbind};

}  // namespace pal
