// A warp's product: where the PTX manual lays its factors among the lanes, and the sums.
#include "ops/kernels/cuda_mma.h"

namespace pal::emulation {
namespace {

struct Fragments {
  uint32_t a[4], b[2];
};
static_assert(sizeof(Fragments) <= kSlot);

struct Warp {
  const unsigned char* slots;
  const Fragments& operator[](int lane) const {
    return *reinterpret_cast<const Fragments*>(slots + size_t(lane) * kSlot);
  }
};

float half_of(uint32_t word, int upper) {
  return bits_float(upper ? word & 0xffff0000u : word << 16);
}
float tf32_of(uint32_t word) {
  if (word & 0x1fffu) refuse("a factor that is not rounded to TF32");
  return bits_float(word);
}

// An element of a, and of b.
float bf16_a(const Warp& warp, int row, int k) {
  return half_of(warp[row % 8 * 4 + k % 8 / 2].a[row / 8 + 2 * (k / 8)], k % 2);
}
float bf16_b(const Warp& warp, int k, int column) {
  return half_of(warp[column * 4 + k % 8 / 2].b[k / 8], k % 2);
}
float tf32_a(const Warp& warp, int row, int k) {
  return tf32_of(warp[row % 8 * 4 + k % 4].a[row / 8 + 2 * (k / 4)]);
}
float tf32_b(const Warp& warp, int k, int column) {
  return tf32_of(warp[column * 4 + k % 4].b[k / 4]);
}

template <int terms, auto a_at, auto b_at> void add(float* c, const Warp& warp) {
  for (int i = 0; i < 4; ++i) {
    const int row = lane() / 4 + 8 * (i / 2), column = 2 * (lane() % 4) + i % 2;
    double sum = double(c[i]);
    for (int k = 0; k < terms; ++k) {
      sum += double(a_at(warp, row, k)) * double(b_at(warp, k, column));
    }
    c[i] = float(sum);
  }
}

}  // namespace

void add_product(Factors type, float* c, const uint32_t* a, const uint32_t* b) {
  const int terms = type == Factors::bf16 ? 16 : 8;
  if (count_product(2.0 * 16 * 8 * terms / 32)) return;
  const Fragments mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const Warp warp{bring(&mine, sizeof mine)};
  if (type == Factors::bf16) {
    add<16, bf16_a, bf16_b>(c, warp);
  } else {
    add<8, tf32_a, tf32_b>(c, warp);
  }
}

}  // namespace pal::emulation
