// What the kernels of recurrent cells share: some columns of a row a thread, and gates that lie
// side by side in a row.
#pragma once
#include <type_traits>

#include "ops/kernels/cuda_columns.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/operands.h"

namespace pal {

constexpr int kCellThreads = 128;  // the gradient has many values to hold
// A thread has eight columns of 16 bits or four of f32, which are 16 bytes; or fewer where there
// would not be so many threads (512 for each of 132 processors) that wait for memory at once.
constexpr int64_t kWaitingThreads = 1 << 16;
constexpr int kFewestColumns = 2;

// A cell's operands and outputs: states (rows, width), or gates of such side by side. What is
// absent or unread has no data.
struct CellTensors {
  Stored in[9], out[3];
  int64_t rows, width;
  const int32_t* lengths;  // null: no sequence ends
  int per;                 // columns of a thread
  DType type;
  bool aligned;  // everything, so that a thread's columns can be moved at once

  // `state`: one of the operands (rows, width), whose type all have.
  CellTensors(const KernelArgs& a, size_t state, const int32_t* row_lengths = nullptr)
      : rows(a.in_spec[state].shape[0]), width(a.in_spec[state].shape[1]), lengths(row_lengths) {
    const TensorSpec& spec = a.in_spec[state];
    type = spec.dtype, aligned = true;
    for (size_t k = 0; k < a.in.size(); ++k) in[k] = stored(input_if_present(a, k), spec, width);
    for (size_t k = 0; k < a.out.size(); ++k) out[k] = stored(a.out[k], spec, width);
    for (const Stored& x : in) aligned &= !x.data || x.vector;
    for (const Stored& y : out) aligned &= !y.data || y.vector;
    per = spec.dtype == DType::f32 ? kGroup / 2 : kGroup;
    while (per > kFewestColumns && rows * width < kWaitingThreads * per) per /= 2;
  }
  __device__ bool ended(const RowGroup& p, int64_t t) const {
    return lengths && t >= lengths[p.row];
  }
};
inline Grid grid_of(const CellTensors& cell, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  return {blocks_of(cell.rows * blocks_of(cell.width, cell.per), kCellThreads), file, line};
}
// f(columns of a thread, the states' type), as constants; void stands for any type in rows that do
// not lie on boundaries of 16 bytes.
template <class F> void by_columns(const CellTensors& cell, F f) {
  const auto by_type = [&](auto per) {
    if (!cell.aligned) return f(per, std::type_identity<void>{});
    by_float_type(cell.type, [&]<class T>(T) { f(per, std::type_identity<T>{}); });
  };
  if (cell.per == 8) return by_type(std::integral_constant<int, 8>{});
  if (cell.per == 4) return by_type(std::integral_constant<int, 4>{});
  by_type(std::integral_constant<int, kFewestColumns>{});
}

// Elements i .. i + n of x as f32, zero from n up to P; i is a multiple of P. Where the type is
// known all P are there, and no branch keeps several loads from being on their way at once.
template <class T, int P>
__device__ void load_columns(const Stored& x, int64_t i, int n, float (&v)[P]) {
  if constexpr (!std::is_void_v<T>)
    load_columns_at<P>(static_cast<const T*>(x.data) + i, v);
  else if constexpr (P == 8)
    load8(x, i, n, v);
  else if constexpr (P == 4)
    load4(x, i, n, v);
  else
    load2(x, i, n, v);
}
template <class T, int P>
__device__ void store_columns(const Stored& y, int64_t i, int n, const float (&v)[P]) {
  if constexpr (!std::is_void_v<T>)
    store_columns_at<P>(static_cast<T*>(y.data) + i, v);
  else if constexpr (P == 8)
    store8(y, i, n, v);
  else if constexpr (P == 4)
    store4(y, i, n, v);
  else
    store2(y, i, n, v);
}

// The groups of N gates, side by side in rows of N * width.
template <class T, int N, int P>
__device__ void load_gates(const Stored& gates, const RowGroup& p, int64_t width,
                           float (&x)[N][P]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    load_columns<T>(gates, (N * p.row + k) * width + p.column, p.n, x[k]);
  }
}
template <class T, int N, int P>
__device__ void store_gates(const Stored& gates, const RowGroup& p, int64_t width,
                            const float (&x)[N][P]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    store_columns<T>(gates, (N * p.row + k) * width + p.column, p.n, x[k]);
  }
}
// `present`: a state that is there in any case, which is read instead, for the sake of no branch.
template <class T, int P>
__device__ void load_or_zero(const Stored& x, const Stored& present, const RowGroup& p,
                             float (&v)[P]) {
  // Field by field: a whole one that is picked would be laid on a stack.
  const Stored picked{.data = x.data ? x.data : present.data,
                      .type = present.type,
                      .vector = x.data ? x.vector : present.vector};
  load_columns<T>(picked, p.at, p.n, v);
#pragma unroll
  for (int k = 0; k < P; ++k) v[k] = x.data ? v[k] : 0;
}

}  // namespace pal
