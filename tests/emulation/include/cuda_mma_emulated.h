// The instructions of ops/kernels/cuda_mma.h as the processor acts them: the lanes of a warp bring
// their fragments, laid out as the PTX manual says, and each works out its own part.
#pragma once
#include <cuda_runtime.h>

#include "ops/kernels/element_types.h"

namespace pal {
namespace emulation {

enum class Factors { bf16, tf32 };
// c (16, 8) += a b over 16 terms of bf16 or 8 of TF32, of the fragments that the warp's lanes
// bring, each sum rounded once. In tests/emulation/mma.cc, whose accesses are no kernel's.
void add_product(Factors type, float* c, const uint32_t* a, const uint32_t* b);

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
  emulation::add_product(emulation::Factors::bf16, c, a, b);
}
inline void mma_tf32(float* c, const uint32_t* a, const uint32_t* b) {
  emulation::add_product(emulation::Factors::tf32, c, a, b);
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
