// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): random
// numbers as a pure function of a key, the same bits on every device. A recomputed mask is the
// mask.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace pal {

struct Philox4 {
  uint32_t x[4];
};

// What a draw depends on: (seed, step, micro-batch, stream), and the index of the element.
struct RandomKey {
  uint64_t seed;
  uint32_t step, micro_batch, stream;
};

constexpr int kPhiloxRounds = 10;
constexpr uint32_t kPhiloxFactor0 = 0xD2511F53u, kPhiloxFactor1 = 0xCD9E8D57u;
constexpr uint32_t kPhiloxStep0 = 0x9E3779B9u, kPhiloxStep1 = 0xBB67AE85u;

PAL_HD inline Philox4 philox(Philox4 counter, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t p0 = uint64_t(kPhiloxFactor0) * counter.x[0];
    const uint64_t p1 = uint64_t(kPhiloxFactor1) * counter.x[2];
    counter = {{uint32_t(p1 >> 32) ^ counter.x[1] ^ k0, uint32_t(p1),
                uint32_t(p0 >> 32) ^ counter.x[3] ^ k1, uint32_t(p0)}};
    k0 += kPhiloxStep0, k1 += kPhiloxStep1;
  }
  return counter;
}

// Four 32-bit draws: those of elements 4*block .. 4*block+3 (blocks below 2^32).
PAL_HD inline Philox4 draw(const RandomKey& key, uint64_t block) {
  return philox({{uint32_t(block), key.step, key.micro_batch, key.stream}}, uint32_t(key.seed),
                uint32_t(key.seed >> 32));
}

// [0, 1) with 24 bits.
PAL_HD inline float uniform01(uint32_t bits) { return float(bits >> 8) * 0x1p-24f; }

}  // namespace pal
