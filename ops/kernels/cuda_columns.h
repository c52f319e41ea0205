// Where a sum goes down rows, a thread has N neighbouring columns of them, moved at once: the loads
// of several rows are on their way at any time, since no branch lies between them. What N is does
// not show in the bits, as each column is summed by itself.
#pragma once
#include "ops/kernels/cuda_rows.h"

namespace pal {

// N elements of 16 bits or 32 from p on, which lies on the boundary of all of them.
template <int N, class T> __device__ void load_columns_at(const T* p, float (&v)[N]) {
  if constexpr (N == 1) v[0] = load(p, 0);
  if constexpr (N == 2) load2(whole_groups(p), 0, N, v);
  if constexpr (N == 4) load4(whole_groups(p), 0, N, v);
  if constexpr (N == 8) load8(whole_groups(p), 0, N, v);
}
template <int N, class T> __device__ void store_columns_at(T* p, const float (&v)[N]) {
  if constexpr (N == 1) store(p, 0, v[0]);
  if constexpr (N == 2) store2(whole_groups(p), 0, N, v);
  if constexpr (N == 4) store4(whole_groups(p), 0, N, v);
  if constexpr (N == 8) store8(whole_groups(p), 0, N, v);
}

// Whether rows of `width` elements can be moved so from all of these addresses on, which may be
// null: for every N up to eight.
template <class... P> bool are_columns_aligned(int64_t width, const P*... rows) {
  return width % kGroup == 0 && ((reinterpret_cast<uintptr_t>(rows) % 16 == 0) && ...);
}

// f(columns of a thread), as a constant.
template <int... N, class F> void with_columns(int columns, F f) {
  ((columns == N ? f(std::integral_constant<int, N>{}) : void()), ...);
}

// The columns of a warp's lanes, and which of the things that have such columns the warp has.
template <int N> struct WarpColumns {
  int64_t unit, column;
  bool exists;

  // Warp number `warp` of those that `units` rows of `width` columns take.
  __device__ WarpColumns(int64_t warp, int64_t units, int64_t width) {
    const int64_t across = (width + kWarp * N - 1) / (kWarp * N);
    unit = divide(warp, across);
    column = (warp - unit * across) * kWarp * N + lane_number() * N;
    exists = unit < units && column < width;
  }
};
template <int N> int64_t warps_across(int64_t width) { return blocks_of(width, kWarp * N); }

}  // namespace pal
