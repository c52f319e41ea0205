// Tensor cores, from compute capability 8.0 on: the product of a warp (mma.sync), and what brings
// its operands (ldmatrix, cp.async) and rounds them. A product adds a (16, k) b (k, 8) to c (16,
// 8), where k is 16 numbers of bf16, two to a word of 32 bits, the first in its lower half, or 8 of
// TF32, a word each. With g = l / 4 and t = l % 4, lane l has (PTX ISA, "matrix fragments for
// mma.m16n8k16" and ".m16n8k8")
//   a: words t of rows g and g + 8, then words t + 4 of these rows
//   b: words t and t + 4 of column g
//   c: elements 2t and 2t + 1 of row g, then of row g + 8
// Sums are f32. Their order is the hardware's, the same each time.
#pragma once
#include "core/cuda/launch.h"
#include "ops/kernels/element_types.h"

#ifndef __CUDACC__
#include <cuda_mma_emulated.h>
#endif

namespace pal {

// Older cards have none of this: kernels that use it end in an error there, also where a newer card
// runs code that was made for an older one.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool kHasMma = false;
#else
constexpr bool kHasMma = true;
#endif
__device__ inline void no_tensor_cores() {
#ifdef __CUDA_ARCH__
  __trap();
#endif
}

#ifdef __CUDACC__
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__device__ inline uint32_t shared_address(const void* p) {
  return uint32_t(__cvta_generic_to_shared(p));
}

// Products are the whole warp's: volatile keeps them out of branches that not all lanes take.
__device__ inline void mma_bf16(float* c, const uint32_t* a, const uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void mma_tf32(float* c, const uint32_t* a, const uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four 8 x 8 matrices of 16-bit elements from shared memory; lane 8 m + r names row r of matrix m,
// 16 bytes on a boundary of 16. Lane l gets word l % 4 of row l / 4 of each; transposed: elements
// l / 4 of rows 2 (l % 4) and the next.
__device__ inline void load_matrices(uint32_t* words, const uint32_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ inline void load_transposed(uint32_t* words, const uint32_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}

// Into shared memory, past the registers; zeros where nothing is `there`. Done once the thread has
// waited for its copies; other threads see it behind a barrier.
__device__ inline void copy_16_bytes(uint32_t* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
               : "memory");
}
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" : : : "memory"); }

// Both rounded to the nearest, ties to even.
__device__ inline uint32_t pack_bf16(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
// To the nearest, ties away from zero, as products of the library round f32.
__device__ inline uint32_t round_tf32(float x) {
  uint32_t word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
}
// 2^x within 2^-22 of its value, 0 below 2^-126.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
// Declared for kernels that are empty.
__device__ void mma_bf16(float*, const uint32_t*, const uint32_t*);
__device__ void mma_tf32(float*, const uint32_t*, const uint32_t*);
__device__ void load_matrices(uint32_t*, const uint32_t*);
__device__ void load_transposed(uint32_t*, const uint32_t*);
__device__ void copy_16_bytes(uint32_t*, const void*, bool);
__device__ void wait_for_copies();
__device__ uint32_t pack_bf16(float, float);
__device__ uint32_t round_tf32(float);
__device__ float exp2_fast(float);
#endif
#endif

// How factors are stored in words, and multiplied. kTiles tiles of c (16, 8) beside each other are
// the left operand of one further product.
struct MmaBf16 {
  static constexpr int kPerWord = 2, kTiles = 2;

  static __device__ void add(float* c, const uint32_t* a, const uint32_t* b) { mma_bf16(c, a, b); }
  // Eight numbers, rounded, to shared memory.
  static __device__ void put8(uint32_t* to, const float* v) {
    *reinterpret_cast<uint4*>(to) = make_uint4(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]),
                                               pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7]));
  }
  static __device__ void as_left(uint32_t* a, const float (*c)[4]) {
    a[0] = pack_bf16(c[0][0], c[0][1]), a[1] = pack_bf16(c[0][2], c[0][3]);
    a[2] = pack_bf16(c[1][0], c[1][1]), a[3] = pack_bf16(c[1][2], c[1][3]);
  }
  // The right operands of two products side by side from rows (16, 16) in shared memory.
  static __device__ void columns(uint32_t* b, const uint32_t* rows, int pitch) {
    load_transposed(b, rows + lane_number() % 16 * pitch + lane_number() / 16 * 4);
  }
  // The left operand whose columns these rows (16, 16) are.
  static __device__ void columns_as_left(uint32_t* a, const uint32_t* rows, int pitch) {
    const int matrix = lane_number() / 8;
    load_transposed(a, rows + (matrix / 2 * 8 + lane_number() % 8) * pitch + matrix % 2 * 4);
  }
  // Elements `column`, an even one, and the next of a row, rounded.
  static __device__ void put2(uint32_t* row, int column, float x, float y) {
    row[column / 2] = pack_bf16(x, y);
  }
};
struct MmaTf32 {
  static constexpr int kPerWord = 1, kTiles = 1;

  static __device__ void add(float* c, const uint32_t* a, const uint32_t* b) { mma_tf32(c, a, b); }
  static __device__ void put8(uint32_t* to, const float* v) {
#pragma unroll
    for (int k = 0; k < 8; k += 4) {
      *reinterpret_cast<uint4*>(to + k) = make_uint4(round_tf32(v[k]), round_tf32(v[k + 1]),
                                                     round_tf32(v[k + 2]), round_tf32(v[k + 3]));
    }
  }
  // A lane has columns 2t and 2t + 1 of c, and brings what the product takes for columns t and
  // t + 4: the terms of the sum in another order, which `columns` follows.
  static __device__ void as_left(uint32_t* a, const float (*c)[4]) {
    a[0] = round_tf32(c[0][0]), a[1] = round_tf32(c[0][2]);
    a[2] = round_tf32(c[0][1]), a[3] = round_tf32(c[0][3]);
  }
  // From rows (8, 16).
  static __device__ void columns(uint32_t* b, const uint32_t* rows, int pitch) {
    rows += 2 * (lane_number() % 4) * pitch + lane_number() / 4;
    b[0] = rows[0], b[1] = rows[pitch], b[2] = rows[8], b[3] = rows[pitch + 8];
  }
  // From rows (8, 16); terms in the order of `columns`.
  static __device__ void columns_as_left(uint32_t* a, const uint32_t* rows, int pitch) {
    columns(a, rows, pitch);
    const uint32_t other = a[1];
    a[1] = a[2], a[2] = other;
  }
  static __device__ void put2(uint32_t* row, int column, float x, float y) {
    row[column] = round_tf32(x), row[column + 1] = round_tf32(y);
  }
};

// The left operand's step s from 16 rows in shared memory.
__device__ inline void load_left(uint32_t* a, const uint32_t* rows, int pitch, int s) {
  load_matrices(a, rows + lane_number() % 16 * pitch + 8 * s + lane_number() / 16 * 4);
}

// c[n] += the left operand, kSteps steps of which left(a, s) brings one, times rows 8 n .. 8 n + 7.
template <class M, int kSteps, int kBlocks, class Left>
__device__ void multiply_rows(float (&c)[kBlocks][4], Left left, const uint32_t* rows, int pitch) {
  static_assert(kSteps % 2 == 0);
  rows += lane_number() % 8 * pitch + lane_number() / 8 * 4;
#pragma unroll
  for (int s = 0; s < kSteps; s += 2) {
    uint32_t a[2][4];
    left(a[0], s), left(a[1], s + 1);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      uint32_t b[4];
      load_matrices(b, rows + 8 * n * pitch + 8 * s);
      M::add(c[n], a[0], b), M::add(c[n], a[1], b + 2);
    }
  }
}

// c[n] += (16, 8 kTerms), as products left them and rounded, times columns 8 n .. 8 n + 7 of the
// rows.
template <class M, int kTerms, int kBlocks>
__device__ void multiply_columns(float (&c)[kBlocks][4], const float (&left)[kTerms][4],
                                 const uint32_t* rows, int pitch) {
  static_assert(kTerms % M::kTiles == 0 && kBlocks % 2 == 0);
#pragma unroll
  for (int s = 0; s < kTerms; s += M::kTiles) {
    uint32_t a[4];
    M::as_left(a, left + s);
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      uint32_t b[4];
      M::columns(b, rows + 8 * s * pitch + 8 * n / M::kPerWord, pitch);
      M::add(c[n], a, b), M::add(c[n + 1], a, b + 2);
    }
  }
}

}  // namespace pal
