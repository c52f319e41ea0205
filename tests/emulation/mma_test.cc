// The emulated instructions of tensor cores against plain loops, with every lane's fragments where
// the PTX manual has them ("matrix fragments for mma.m16n8k16", ".m16n8k8", and ldmatrix).
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "ops/kernels/cuda_mma.h"
#include "tests/emulation/emulation.h"

namespace pal::test {
namespace {

using emulation::Order;

class Mma : public testing::Test {
 protected:
  void SetUp() override { emulation::settings() = {}; }
  void TearDown() override { emulation::settings() = {}; }
  template <class F> static void in_any_order(F check) {
    for (Order order : {Order::forward, Order::backward, Order::shuffled}) {
      emulation::settings().order = order;
      check();
    }
  }
};
// Kernels reach no other memory of the host.
template <class T> struct Pinned {
  using value_type = T;
  Pinned() = default;
  template <class U> explicit Pinned(const Pinned<U>&) {}
  T* allocate(size_t n) {
    void* block = nullptr;
    check_cuda(cudaMallocHost(&block, n * sizeof(T)));
    return static_cast<T*>(block);
  }
  void deallocate(T* block, size_t) { cudaFreeHost(block); }
  bool operator==(const Pinned&) const { return true; }
};
template <class T> using PinnedVector = std::vector<T, Pinned<T>>;

template <class... A> void launched(A... args) {
  launch(args...);
  check_cuda(cudaStreamSynchronize(nullptr));
}

// What a warp brings to a product and takes of it, lane by lane.
struct Registers {
  uint32_t a[32][4], b[32][2];
  float c[32][4];
};
__global__ void product_kernel(Registers* r, bool bf16_factors) {
  const int l = lane_number();
  float c[4];
  for (int i = 0; i < 4; ++i) c[i] = r->c[l][i];
  (bf16_factors ? mma_bf16 : mma_tf32)(c, r->a[l], r->b[l]);
  for (int i = 0; i < 4; ++i) r->c[l][i] = c[i];
}

struct Matrices {
  float a[16][16] = {}, b[16][8] = {}, c[16][8] = {};
  double product[16][8] = {};
};
Matrices random_matrices(int terms, unsigned seed, uint32_t low_bits) {
  std::mt19937 rng(seed);
  auto number = [&] {
    const float x = std::uniform_real_distribution<float>(-2, 2)(rng);
    return bits_float(float_bits(x) & ~low_bits);
  };
  Matrices m;
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < terms; ++k) m.a[i][k] = number();
    for (int j = 0; j < 8; ++j) m.c[i][j] = number();
  }
  for (int k = 0; k < terms; ++k) {
    for (int j = 0; j < 8; ++j) m.b[k][j] = number();
  }
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      m.product[i][j] = double(m.c[i][j]);
      for (int k = 0; k < terms; ++k) m.product[i][j] += double(m.a[i][k]) * double(m.b[k][j]);
    }
  }
  return m;
}
void expect_product(const Matrices& m, const Registers& r) {
  for (int l = 0; l < 32; ++l) {
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? l >> 2 : (l >> 2) + 8, column = (l % 4) * 2 + (i & 1);
      EXPECT_EQ(r.c[l][i], float(m.product[row][column])) << "lane " << l << " register " << i;
    }
  }
}
void bring_sums(const Matrices& m, Registers& r) {
  for (int l = 0; l < 32; ++l) {
    for (int i = 0; i < 4; ++i)
      r.c[l][i] = m.c[i < 2 ? l >> 2 : (l >> 2) + 8][(l % 4) * 2 + (i & 1)];
  }
}

// `bring(r, l, group, in_group)`: a lane's fragments of the factors.
template <class F> void expect_product_of(const Matrices& m, bool bf16, F bring) {
  PinnedVector<Registers> held(1);
  Registers& r = held[0];
  bring_sums(m, r);
  for (int l = 0; l < 32; ++l) bring(r, l, l >> 2, l % 4);
  launched(product_kernel, Grid(1), 32, 0, nullptr, &r, bf16);
  expect_product(m, r);
}

TEST_F(Mma, OfBf16IsTheProduct) {
  in_any_order([] {
    const Matrices m = random_matrices(16, 1, 0xffffu);
    expect_product_of(m, true, [&](Registers& r, int l, int group, int in_group) {
      for (int i = 0; i < 8; ++i) {  // a0 .. a7, two to a register
        const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
        const int column = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
        r.a[l][i / 2] |= float_bits(m.a[row][column]) >> 16 << (16 * (i % 2));
      }
      for (int i = 0; i < 4; ++i) {
        const int row = i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
        r.b[l][i / 2] |= float_bits(m.b[row][group]) >> 16 << (16 * (i % 2));
      }
    });
  });
}

TEST_F(Mma, OfTf32IsTheProduct) {
  in_any_order([] {
    const Matrices m = random_matrices(8, 2, 0x1fffu);
    expect_product_of(m, false, [&](Registers& r, int l, int group, int in_group) {
      for (int i = 0; i < 4; ++i) {
        const int row = i == 0 || i == 2 ? group : group + 8;
        const int column = i < 2 ? in_group : in_group + 4;
        r.a[l][i] = float_bits(m.a[row][column]);
      }
      for (int i = 0; i < 2; ++i) r.b[l][i] = float_bits(m.b[in_group + 4 * i][group]);
    });
  });
}

TEST_F(Mma, RefusesFactorsThatAreNotTf32) {
  PinnedVector<Registers> held(1);
  Registers& r = held[0];
  r.a[5][2] = 1;
  EXPECT_THROW(launched(product_kernel, Grid(1), 32, 0, nullptr, &r, false), std::runtime_error);
}

// 16 rows of 8 words and a gap: word w of row r holds the elements 100 r + 2 w and the next.
constexpr int kPitch = 12;
__global__ void matrices_kernel(uint32_t (*words)[4], bool transposed) {
  uint32_t* rows = shared_memory<uint32_t>();
  for (int i = lane_number(); i < 16 * 8; i += kWarp) {
    const unsigned r = unsigned(i) / 8, w = unsigned(i) % 8;
    rows[r * kPitch + w] = (100 * r + 2 * w) | (100 * r + 2 * w + 1) << 16;
  }
  __syncwarp();
  const uint32_t* row = rows + lane_number() % 16 * kPitch + lane_number() / 16 * 4;
  (transposed ? load_transposed : load_matrices)(words[lane_number()], row);
}
TEST_F(Mma, MatricesGoToTheLanes) {
  in_any_order([] {
    for (const bool transposed : {false, true}) {
      PinnedVector<uint32_t> held(32 * 4);
      auto* words = reinterpret_cast<uint32_t(*)[4]>(held.data());
      launched(matrices_kernel, Grid(1), 32, size_t(16 * kPitch * 4), nullptr, words, transposed);
      for (unsigned l = 0; l < 32; ++l) {
        for (unsigned m = 0; m < 4; ++m) {
          const unsigned top = m % 2 * 8, left = m / 2 * 8;  // of the matrix
          const unsigned first = transposed ? 100 * (top + 2 * (l % 4)) + left + l / 4
                                            : 100 * (top + l / 4) + left + 2 * (l % 4);
          const unsigned next = transposed ? first + 100 : first + 1;
          EXPECT_EQ(words[l][m], first | next << 16) << "lane " << l << " matrix " << m;
        }
      }
    }
  });
}

// x (16, 8 M::kPerWord) y (8, ..) transposed, and its rounding times rows again: as attention does.
template <class M> __global__ void chain_kernel(const float* x, const float* y, float* out) {
  constexpr int kWidth = 16 * M::kPerWord, kPitchOf = 16 + 4, kKeys = 16;
  uint32_t* left = shared_memory<uint32_t>();
  uint32_t* right = left + 16 * kPitchOf;
  for (int g = lane_number(); g < 16 * kWidth / 8; g += kWarp) {
    const int row = g / (kWidth / 8), e = g % (kWidth / 8) * 8;
    M::put8(left + row * kPitchOf + e / M::kPerWord, x + row * kWidth + e);
    M::put8(right + row * kPitchOf + e / M::kPerWord, y + row * kWidth + e);
  }
  __syncwarp();
  float score[kKeys / 8][4] = {}, sum[kWidth / 8][4] = {};
  multiply_rows<M, 2>(
      score, [&](uint32_t* a, int s) { load_left(a, left, kPitchOf, s); }, right, kPitchOf);
  multiply_columns<M>(sum, score, right, kPitchOf);
  for (int n = 0; n < kWidth / 8; ++n) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane_number() / 4 + 8 * (i / 2);
      out[row * kWidth + 8 * n + 2 * (lane_number() % 4) + i % 2] = sum[n][i];
    }
  }
}
template <class M> void expect_chain(float unit) {
  constexpr int kWidth = 16 * M::kPerWord;
  std::mt19937 rng(3);
  PinnedVector<float> x(16 * kWidth), y(x.size()), got(x.size());
  for (auto* v : {&x, &y}) {  // small whole numbers: every product and sum is exact
    for (float& e : *v) e = unit * float(std::uniform_int_distribution<int>(-1, 1)(rng));
  }
  launched(chain_kernel<M>, Grid(1), 32, size_t(2 * 16 * 20 * 4), nullptr, x.data(), y.data(),
           got.data());
  for (size_t i = 0; i < 16; ++i) {
    for (size_t e = 0; e < kWidth; ++e) {
      float want = 0;
      for (size_t j = 0; j < 16; ++j) {
        float score = 0;
        for (size_t k = 0; k < kWidth; ++k) score += x[i * kWidth + k] * y[j * kWidth + k];
        want += score * y[j * kWidth + e];
      }
      EXPECT_EQ(got[i * kWidth + e], want) << "row " << i << " column " << e;
    }
  }
}
TEST_F(Mma, ProductsFeedProducts) {
  in_any_order([] {
    expect_chain<MmaBf16>(1);
    expect_chain<MmaTf32>(1);
  });
}

__global__ void copies_kernel(const uint4* from, uint32_t* to, bool wait) {
  uint32_t* shared = shared_memory<uint32_t>();
  const int t = int(threadIdx.x);
  copy_16_bytes(shared + 4 * t, from + t, t % 2 == 0);
  if (wait) wait_for_copies();
  __syncthreads();
  for (int k = 0; k < 4; ++k) to[4 * t + k] = shared[4 * t + k];
}
TEST_F(Mma, CopiesAreThereWhenTheyHaveBeenWaitedFor) {
  PinnedVector<uint4> from(64);
  for (unsigned i = 0; i < 64; ++i) from[i] = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
  PinnedVector<uint32_t> to(256);
  launched(copies_kernel, Grid(1), 64, size_t(1024), nullptr, from.data(), to.data(), true);
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(to[i], i / 4 % 2 == 0 ? i : 0);
  EXPECT_THROW(
      launched(copies_kernel, Grid(1), 64, size_t(1024), nullptr, from.data(), to.data(), false),
      std::runtime_error);
  EXPECT_EQ(to[0], 0xffffffffu);  // what shared memory held before
}

TEST_F(Mma, Tf32RoundsToTheNearest) {
  EXPECT_EQ(round_tf32(1 + 0x1p-11f), float_bits(1 + 0x1p-10f));  // a tie, away from zero
  EXPECT_EQ(round_tf32(-1 - 0x1p-11f), float_bits(-1 - 0x1p-10f));
  EXPECT_EQ(round_tf32(1 + 0x1.8p-12f), float_bits(1));
  EXPECT_EQ(round_tf32(INFINITY), float_bits(INFINITY));
  EXPECT_TRUE(std::isnan(bits_float(round_tf32(bits_float(0x7fffffffu)))));
}

}  // namespace
}  // namespace pal::test
