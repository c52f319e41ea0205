// What all elementwise kernels share: eight elements a thread, moved 16 bytes at a time where the
// operand lies on such a boundary, and one at a time where it does not (a window may begin
// anywhere). Eight of f32 side by side would be two halves of a sector each: a thread has two fours
// then, and a warp's lie side by side. The formulas are the functors of the CPU's kernels. In-place
// forms work because a thread has read all of its elements before it writes the first.
#pragma once
#include <utility>

#include "core/cuda/launch.h"
#include "ops/kernels/element_types.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/tiles.h"

namespace pal {

// A launch on the node's queue, without shared memory; of blocks of kThreads threads unless told.
template <class... P>
void launch(void (*kernel)(P...), Grid grid, int block, const KernelArgs& a,
            std::type_identity_t<P>... args) {
  launch(kernel, grid, block, 0, stream_of(a), args...);
}
template <class... P>
void launch(void (*kernel)(P...), Grid grid, const KernelArgs& a, std::type_identity_t<P>... args) {
  launch(kernel, grid, kThreads, 0, stream_of(a), args...);
}

constexpr int kGroup = 8;  // elements of a thread: one byte of bits, 16 bytes of bf16, 32 of f32

// A tensor as kernels see it.
struct Stored {
  void* data = nullptr;
  DType type = DType::f32;
  bool vector = false;            // every group of eight begins on a boundary of 16 bytes
  float inside = 1, outside = 0;  // what a bit stands for
};

// `width`: of the rows whose groups are read; groups never cross a row's end.
inline Stored stored(const void* data, const TensorSpec& spec, int64_t width = kGroup,
                     BitMeaning bit = {}) {
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0 && width % kGroup == 0;
  return {const_cast<void*>(data), spec.dtype, aligned, bit.inside, bit.outside};
}

// f32 from an address on.
inline Stored floats(const void* data, int64_t width) {
  return stored(data, {{}, DType::f32}, width);
}
// What a kernel finds the address of, in groups that begin where it does.
__device__ inline Stored stored_at(const void* data, DType type = DType::f32) {
  return {.data = const_cast<void*>(data),
          .type = type,
          .vector = reinterpret_cast<uintptr_t>(data) % 16 == 0};
}

// One element, of any floating-point storage.
__device__ inline float load1(const Stored& x, int64_t i) {
  switch (x.type) {
    case DType::bf16: return load(static_cast<const bf16*>(x.data), i);
    case DType::f16: return load(static_cast<const f16*>(x.data), i);
    case DType::bit: return load_bit(static_cast<const uint8_t*>(x.data), i) ? x.inside : x.outside;
    default: return static_cast<const float*>(x.data)[i];
  }
}
__device__ inline void store1(const Stored& y, int64_t i, float value) {
  switch (y.type) {
    case DType::bf16: return store(static_cast<bf16*>(y.data), i, value);
    case DType::f16: return store(static_cast<f16*>(y.data), i, value);
    default: static_cast<float*>(y.data)[i] = value;
  }
}

// Two 16-bit elements lie in each word, the first in its lower half.
template <class T> __device__ void unpack(uint32_t word, float* two) {
  two[0] = to_float(T{uint16_t(word)});
  two[1] = to_float(T{uint16_t(word >> 16)});
}
template <class T> __device__ uint32_t pack(const float* two) {
  return uint32_t(from_float<T>(two[0]).bits) | uint32_t(from_float<T>(two[1]).bits) << 16;
}
template <class T> __device__ void load_half8(const Stored& x, int64_t i, int n, float* v) {
  const T* p = static_cast<const T*>(x.data) + i;
  if (x.vector && n == kGroup) {
    const uint4 four = *reinterpret_cast<const uint4*>(p);
    unpack<T>(four.x, v), unpack<T>(four.y, v + 2);
    unpack<T>(four.z, v + 4), unpack<T>(four.w, v + 6);
    return;
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = k < n ? load(p, k) : 0;
}
template <class T> __device__ void store_half8(const Stored& y, int64_t i, int n, const float* v) {
  T* p = static_cast<T*>(y.data) + i;
  if (y.vector && n == kGroup) {
    *reinterpret_cast<uint4*>(p) =
        make_uint4(pack<T>(v), pack<T>(v + 2), pack<T>(v + 4), pack<T>(v + 6));
    return;
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (k < n) store(p, k, v[k]);
  }
}

// Elements i .. i + n of x as f32, zero from n up to eight. Of bits, i is a multiple of 8.
__device__ inline void load8(const Stored& x, int64_t i, int n, float* v) {
  switch (x.type) {
    case DType::bf16: return load_half8<bf16>(x, i, n, v);
    case DType::f16: return load_half8<f16>(x, i, n, v);
    case DType::bit: {
      const uint32_t byte = static_cast<const uint8_t*>(x.data)[i / 8];
#pragma unroll
      for (int k = 0; k < kGroup; ++k) v[k] = byte >> k & 1 ? x.inside : x.outside;
      return;
    }
    default: break;
  }
  const float* p = static_cast<const float*>(x.data) + i;
  if (x.vector && n == kGroup) {
    const float4 a = reinterpret_cast<const float4*>(p)[0];
    const float4 b = reinterpret_cast<const float4*>(p)[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    return;
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) v[k] = k < n ? p[k] : 0;
}
// A bit is 1 where the value is greater than zero; those behind the last element are 0.
__device__ inline void store8(const Stored& y, int64_t i, int n, const float* v) {
  switch (y.type) {
    case DType::bf16: return store_half8<bf16>(y, i, n, v);
    case DType::f16: return store_half8<f16>(y, i, n, v);
    case DType::bit: {
      uint32_t byte = 0;
#pragma unroll
      for (int k = 0; k < kGroup; ++k) byte |= uint32_t(k < n && v[k] > 0) << k;
      static_cast<uint8_t*>(y.data)[i / 8] = uint8_t(byte);
      return;
    }
    default: break;
  }
  float* p = static_cast<float*>(y.data) + i;
  if (y.vector && n == kGroup) {
    reinterpret_cast<float4*>(p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    reinterpret_cast<float4*>(p)[1] = make_float4(v[4], v[5], v[6], v[7]);
    return;
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (k < n) p[k] = v[k];
  }
}

// How many of the eight elements from i on there are, of n.
__device__ inline int group_size(int64_t i, int64_t n) {
  return n - i < kGroup ? int(n - i) : kGroup;
}
inline int64_t groups_of(int64_t n) { return blocks_of(n, kGroup); }

// Elements i .. i + n of x, which is no bits, as f32, zero from n up to four; i is a multiple of 4.
__device__ inline void load4(const Stored& x, int64_t i, int n, float* v) {
  if (x.vector && n == 4 && x.type == DType::f32) {
    const float4 a = *reinterpret_cast<const float4*>(static_cast<const float*>(x.data) + i);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    return;
  }
  if (x.vector && n == 4) {
    const uint64_t words =
        *reinterpret_cast<const uint64_t*>(static_cast<const uint16_t*>(x.data) + i);
    if (x.type == DType::bf16)
      unpack<bf16>(uint32_t(words), v), unpack<bf16>(uint32_t(words >> 32), v + 2);
    else
      unpack<f16>(uint32_t(words), v), unpack<f16>(uint32_t(words >> 32), v + 2);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = k < n ? load1(x, i + k) : 0;
}
__device__ inline void store4(const Stored& y, int64_t i, int n, const float* v) {
  if (y.vector && n == 4 && y.type == DType::f32) {
    *reinterpret_cast<float4*>(static_cast<float*>(y.data) + i) =
        make_float4(v[0], v[1], v[2], v[3]);
    return;
  }
  if (y.vector && n == 4) {
    const bool bf = y.type == DType::bf16;
    const uint32_t low = bf ? pack<bf16>(v) : pack<f16>(v);
    const uint32_t high = bf ? pack<bf16>(v + 2) : pack<f16>(v + 2);
    *reinterpret_cast<uint64_t*>(static_cast<uint16_t*>(y.data) + i) = uint64_t(high) << 32 | low;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k < n) store1(y, i + k, v[k]);
  }
}

// The same of two elements; i is even.
__device__ inline void load2(const Stored& x, int64_t i, int n, float* v) {
  if (!x.vector || n < 2) {
    v[0] = n > 0 ? load1(x, i) : 0, v[1] = n > 1 ? load1(x, i + 1) : 0;
  } else if (x.type == DType::f32) {
    const float2 a = *reinterpret_cast<const float2*>(static_cast<const float*>(x.data) + i);
    v[0] = a.x, v[1] = a.y;
  } else {
    const uint32_t word =
        *reinterpret_cast<const uint32_t*>(static_cast<const uint16_t*>(x.data) + i);
    x.type == DType::bf16 ? unpack<bf16>(word, v) : unpack<f16>(word, v);
  }
}
__device__ inline void store2(const Stored& y, int64_t i, int n, const float* v) {
  if (!y.vector || n < 2) {
    if (n > 0) store1(y, i, v[0]);
    if (n > 1) store1(y, i + 1, v[1]);
  } else if (y.type == DType::f32) {
    *reinterpret_cast<float2*>(static_cast<float*>(y.data) + i) = make_float2(v[0], v[1]);
  } else {
    *reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(y.data) + i) =
        y.type == DType::bf16 ? pack<bf16>(v) : pack<f16>(v);
  }
}

// The eight elements of thread number t, of n: side by side, or two fours `apart`.
struct Eight {
  int64_t at[2];  // the fours
  int64_t n;
  bool apart;

  __device__ Eight(int64_t t, int64_t all, bool are_apart) : n(all), apart(are_apart) {
    const int64_t warp = t / kWarp * kWarp * kGroup;
    at[0] = apart ? warp + t % kWarp * 4 : t * kGroup;
    at[1] = apart ? at[0] + 4 * kWarp : at[0] + 4;
  }
  __device__ bool none() const { return at[0] >= n; }
  __device__ void load(const Stored& x, float* v) const {
    if (!apart) return load8(x, at[0], group_size(at[0], n), v);
    load4(x, at[0], size(0), v), load4(x, at[1], size(1), v + 4);
  }
  __device__ void store(const Stored& y, const float* v) const {
    if (!apart) return store8(y, at[0], group_size(at[0], n), v);
    store4(y, at[0], size(0), v), store4(y, at[1], size(1), v + 4);
  }
  __device__ int size(int four) const {  // so many there are of a four
    const int64_t left = n - at[four];
    return left < 0 ? 0 : left < 4 ? int(left) : 4;
  }
};
// Whether threads are to take two fours: where some are f32 and none are bits, whose eight lie in a
// byte.
template <class... S> bool fours_apart(const S&... all) {
  return ((all.data && all.type == DType::f32) || ...) &&
         !((all.data && all.type == DType::bit) || ...);
}
inline Grid grid_of_groups(int64_t groups, const char* file = __builtin_FILE(),
                           int line = __builtin_LINE()) {
  return {blocks_of(groups, kThreads), file, line};
}

// A thread's elements in rows of `width`, `per` of them (eight at most): their row, the first one's
// column and place among all, and how many they are; none: there is nothing to do.
struct RowGroup {
  int64_t row, column, at;
  int n;
};
__device__ inline RowGroup row_group(int64_t rows, int64_t width, int per = kGroup) {
  const int64_t g = thread_number(), per_row = (width + per - 1) / per;
  if (g >= rows * per_row) return {0, 0, 0, 0};
  const int64_t row = divide(g, per_row), column = (g - row * per_row) * per;
  return {row, column, row * width + column, width - column < per ? int(width - column) : per};
}

// The same of eight elements as two fours, which lie in a row one behind the other, or as Eight's
// `apart`: then rows are multiples of four, and the fours may lie in different ones.
struct RowEight {
  int64_t row[2], column[2], at[2];
  int n[2];  // elements of each four
  bool apart;

  __device__ RowEight(int64_t rows, int64_t width, bool are_apart) : apart(are_apart) {
    if (apart) {
      const Eight eight(thread_number(), rows * width, true);
#pragma unroll
      for (int four = 0; four < 2; ++four) {
        at[four] = eight.at[four], n[four] = eight.size(four);
        row[four] = n[four] ? divide(at[four], width) : 0;
        column[four] = n[four] ? at[four] - row[four] * width : 0;
      }
    } else {
      const RowGroup g = row_group(rows, width);
      row[0] = row[1] = g.row, column[0] = g.column, column[1] = g.column + 4;
      at[0] = g.at, at[1] = g.at + 4;
      n[0] = g.n < 4 ? g.n : 4, n[1] = g.n - n[0];
    }
  }
  __device__ bool none() const { return n[0] == 0; }
  // Elements at place[0] and place[1] of x, where the thread's own columns are.
  __device__ void load(const Stored& x, const int64_t (&place)[2], float* v) const {
    if (!apart) return load8(x, place[0], n[0] + n[1], v);
    load4(x, place[0], n[0], v), load4(x, place[1], n[1], v + 4);
  }
  __device__ void load(const Stored& x, float* v) const { load(x, at, v); }
  // Of one row that stands for all.
  __device__ void load_row(const Stored& x, float* v) const { load(x, column, v); }
  __device__ void store(const Stored& y, const float* v) const {
    if (!apart) return store8(y, at[0], n[0] + n[1], v);
    store4(y, at[0], n[0], v), store4(y, at[1], n[1], v + 4);
  }
};
template <class... S> bool row_fours_apart(int64_t width, const S&... all) {
  return width % kGroup == 0 && fours_apart(all...);
}

template <int N> struct Operands {
  Stored in[N];
  Stored out;
  int64_t n;
  bool apart = false;  // Eight's

  void choose_eights() {
    apart = [&]<size_t... K>(std::index_sequence<K...>) { return fours_apart(in[K]..., out); }
    (std::make_index_sequence<N>{});
  }
};

// out[i] = f(in[0][i], ..): as map_elements of ops/kernels/tiles.h.
template <int N, class F> __global__ void map_kernel(Operands<N> a, F f) {
  const Eight eight(thread_number(), a.n, a.apart);
  if (eight.none()) return;
  float x[N][kGroup], y[kGroup];
#pragma unroll
  for (int k = 0; k < N; ++k) eight.load(a.in[k], x[k]);
#pragma unroll
  for (int j = 0; j < kGroup; ++j) {
    if constexpr (N == 1)
      y[j] = f(x[0][j]);
    else if constexpr (N == 2)
      y[j] = f(x[0][j], x[1][j]);
    else
      y[j] = f(x[0][j], x[1][j], x[2][j]);
  }
  eight.store(a.out, y);
}

struct Same {
  PAL_HD float operator()(float x) const { return x; }
};

template <int N, class F> void launch_map(const KernelArgs& a, F f, BitMeaning bit = {}) {
  static_assert(N >= 1 && N <= 3);
  Operands<N> operands{.out = stored(a.out[0], a.out_spec[0]), .n = a.out_spec[0].numel()};
  for (size_t k = 0; k < N; ++k) operands.in[k] = stored(a.in[k], a.in_spec[k], kGroup, bit);
  operands.choose_eights();
  launch(map_kernel<N, F>, grid_of_groups(groups_of(operands.n)), a, operands, f);
}

// The run of map_op<N, F> (ops/kernels/tiles.h).
template <int N, class F> void run_map(const KernelArgs& a) {
  const F f = formula_of<F>(a.attrs);
  launch_map<N>(a, f, bit_meaning_of(f));
}

// Moves bytes unless they are where they should be already.
inline void copy_async(const KernelArgs& a, void* to, const void* from, int64_t bytes) {
  if (to == from || bytes == 0) return;
  check_cuda(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDefault, stream_of(a)));
}
// The run of an operator whose output has its operand's bytes.
inline void copy_operand_async(const KernelArgs& a) {
  copy_async(a, a.out[0], a.in[0], a.out_spec[0].bytes());
}
inline void zero_async(const KernelArgs& a, void* to, int64_t bytes) {
  if (bytes) check_cuda(cudaMemsetAsync(to, 0, size_t(bytes), stream_of(a)));
}

}  // namespace pal
