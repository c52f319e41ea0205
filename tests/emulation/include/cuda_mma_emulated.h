// The instructions of ops/kernels/cuda_mma.h as the processor acts them: the lanes of a warp bring
// their fragments, laid out as the PTX manual says, and each works out its own part.
#pragma once
#include <cuda_runtime.h>

#include "ops/kernels/element_types.h"

namespace pal {
namespace emulation {

struct Fragments {
  uint32_t a[4], b[2];
};
static_assert(sizeof(Fragments) <= kSlot);

// c += a b over k terms, the sum rounded once; a_at(warp, row, k) and b_at(warp, k, column) find
// an element among the lanes' fragments.
template <class A, class B>
void add_product(float* c, const uint32_t* a, const uint32_t* b, int terms, A a_at, B b_at) {
  if (count_product(2.0 * 16 * 8 * terms / 32)) return;
  const Fragments mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const unsigned char* slots = bring(&mine, sizeof mine);
  const Fragments* warp[32];
  for (size_t l = 0; l < 32; ++l) warp[l] = reinterpret_cast<const Fragments*>(slots + l * kSlot);
  for (int i = 0; i < 4; ++i) {
    const int row = lane() / 4 + 8 * (i / 2), column = 2 * (lane() % 4) + i % 2;
    double sum = double(c[i]);
    for (int k = 0; k < terms; ++k)
      sum += double(a_at(warp, row, k)) * double(b_at(warp, k, column));
    c[i] = float(sum);
  }
  all_have_read();
}

inline float half_of(uint32_t word, int upper) {
  return bits_float(upper ? word & 0xffff0000u : word << 16);
}
inline float tf32_of(uint32_t word) {
  if (word & 0x1fffu) refuse("a factor that is not rounded to TF32");
  return bits_float(word);
}

// The 8 x 8 matrices of 16-bit elements whose rows the lanes name, the first one's by lanes 0 .. 7:
// lane l gets word l % 4 of row l / 4 of each.
inline const uint16_t* row_of(const unsigned char* slots, int matrix, int row) {
  const uint16_t* at = nullptr;
  std::memcpy(static_cast<void*>(&at), slots + size_t(8 * matrix + row) * kSlot, sizeof at);
  check_vector(at, 16);
  return at;
}

}  // namespace emulation

inline void mma_bf16(float* c, const uint32_t* a, const uint32_t* b) {
  using emulation::Fragments, emulation::half_of;
  emulation::add_product(
      c, a, b, 16,
      [](const Fragments* const* warp, int row, int k) {
        return half_of(warp[row % 8 * 4 + k % 8 / 2]->a[row / 8 + 2 * (k / 8)], k % 2);
      },
      [](const Fragments* const* warp, int k, int column) {
        return half_of(warp[column * 4 + k % 8 / 2]->b[k / 8], k % 2);
      });
}
inline void mma_tf32(float* c, const uint32_t* a, const uint32_t* b) {
  using emulation::Fragments, emulation::tf32_of;
  emulation::add_product(
      c, a, b, 8,
      [](const Fragments* const* warp, int row, int k) {
        return tf32_of(warp[row % 8 * 4 + k % 4]->a[row / 8 + 2 * (k / 4)]);
      },
      [](const Fragments* const* warp, int k, int column) {
        return tf32_of(warp[column * 4 + k % 4]->b[k / 4]);
      });
}

inline void load_matrices(uint32_t* words, const uint32_t* row) {
  const unsigned char* slots = emulation::bring(&row, sizeof row);
  const int lane = emulation::lane();
  for (int m = 0; m < 4; ++m) {
    std::memcpy(&words[m], emulation::row_of(slots, m, lane / 4) + 2 * (lane % 4), 4);
  }
  emulation::all_have_read();
}
inline void load_transposed(uint32_t* words, const uint32_t* row) {
  const unsigned char* slots = emulation::bring(&row, sizeof row);
  const int lane = emulation::lane();
  for (int m = 0; m < 4; ++m) {
    const uint32_t low = emulation::row_of(slots, m, 2 * (lane % 4))[lane / 4];
    const uint32_t high = emulation::row_of(slots, m, 2 * (lane % 4) + 1)[lane / 4];
    words[m] = low | high << 16;
  }
  emulation::all_have_read();
}

inline void copy_16_bytes(uint32_t* to, const void* from, bool there) {
  emulation::copy_later(to, there ? from : nullptr, 16);
}
inline void wait_for_copies() { emulation::wait_for_copies(); }

inline uint32_t pack_bf16(float low, float high) {
  return uint32_t(from_float<bf16>(low).bits) | uint32_t(from_float<bf16>(high).bits) << 16;
}
// To the nearest, ties away from zero.
inline uint32_t round_tf32(float x) {
  const uint32_t u = float_bits(x);
  return x != x ? 0x7fffe000u : (u + 0x1000u) & ~0x1fffu;
}
inline float exp2_fast(float x) { return std::exp2(x); }

}  // namespace pal
