// The same bits for any number of threads: products and convolutions of random shapes, and of those
// whose sums oneDNN cuts by the number of threads when it is let.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <random>
#include <span>
#include <vector>

#include "ops/libraries/conv_kernel.h"
#include "ops/libraries/matmul_product.h"
#include "ops/libraries/onednn.h"
#include "ops/libraries/tile_sums.h"
#include "tests/support/numbers.h"

namespace pal {
namespace {

using test::numbers;
using Floats = std::vector<float>;

constexpr int kThreads[] = {2, 3, 8, 16};

// As a kernel's workspace is: aligned, and of no known content. Nothing is written behind it.
class Workspace {
 public:
  explicit Workspace(int64_t size)
      : size_(size), bytes_(size_t(size + kAlignment + kBehind), kFill) {}
  ~Workspace() {
    const std::byte* behind = at() + size_;
    EXPECT_EQ(std::count(behind, behind + kBehind, kFill), kBehind) << size_ << " bytes";
  }
  std::byte* at() {
    const auto begin = int64_t(uintptr_t(bytes_.data()));
    return bytes_.data() + (align_up(begin) - begin);
  }

 private:
  static constexpr int64_t kBehind = 8192;
  static constexpr std::byte kFill{0xFF};
  int64_t size_;
  std::vector<std::byte> bytes_;
};

int64_t pick(std::mt19937& random, std::initializer_list<int64_t> of) {
  return of.begin()[random() % of.size()];
}

struct Numbers {
  Floats a, b, c;
};

Floats product(const ProductShape& s, const Numbers& given, int threads) {
  const Product product(cpu_device(threads), s);
  Workspace workspace(product.workspace());
  Floats c = given.c;
  product.run(given.a.data(), given.b.data(), c.data(), s.bias ? given.b.data() : nullptr,
              workspace.at(), {.workers = threads});
  return c;
}

// As many bf16, one behind the other: the upper halves of floats, all of them finite.
void keep_upper_halves(Floats& floats) {
  auto* codes = reinterpret_cast<char*>(floats.data());
  for (size_t i = 0; i < floats.size(); ++i) std::memmove(codes + 2 * i, codes + 4 * i + 2, 2);
}

void expect_same_bits(const ProductShape& s) {
  const int64_t of_b = s.b_layout ? s.b_layout->bytes * 8 / bits(s.in) : s.batch * s.k * s.n;
  Numbers given{numbers(s.batch * s.m * s.k, 1), numbers(of_b + s.n, 2),
                numbers(s.batch * s.m * s.n, 3)};
  if (s.in == DType::bf16) {
    for (Floats* floats : {&given.a, &given.b}) keep_upper_halves(*floats);
  }
  const Floats once = product(s, given, 1);
  for (int threads : kThreads) {
    const Floats again = product(s, given, threads);
    EXPECT_EQ(std::memcmp(once.data(), again.data(), once.size() * sizeof(float)), 0)
        << threads << " threads: batch " << s.batch << " m " << s.m << " n " << s.n << " k " << s.k
        << (s.a[1] == 1 ? " ta" : "") << (s.b[1] == 1 ? " tb" : "") << (s.accumulate ? " sum" : "")
        << (s.bias ? " bias" : "") << (s.in == DType::bf16 ? " bf16" : "")
        << (s.b_layout ? " packed" : "");
  }
}

ProductShape shaped(int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                    bool time_major = false) {
  ProductShape s{.batch = batch, .m = m, .n = n, .k = k, .c = {m * n, n, 1}};
  const int64_t beside = time_major ? batch : 1;  // matrices that lie row by row beside each other
  const auto strides = [&](int64_t rows, int64_t columns) {
    return std::array<int64_t, 3>{time_major ? columns : rows * columns, beside * columns, 1};
  };
  s.a = ta ? strides(k, m) : strides(m, k);
  s.b = tb ? strides(n, k) : strides(k, n);
  if (ta) std::swap(s.a[1], s.a[2]);
  if (tb) std::swap(s.b[1], s.b[2]);
  return s;
}

TEST(Threads, WeightGradientsOfLongSumsHaveTheSameBits) {
  for (int64_t k : {2100, 3200, 4000, 5000}) {  // a layer of few labels, where it was found
    expect_same_bits(shaped(1, 128, 29, k, true, false));
  }
  expect_same_bits(shaped(1, 129, 2, 3000, true, true));
  ProductShape sum = shaped(1, 512, 192, 4096, true, false);
  sum.accumulate = sum.bias = true;
  expect_same_bits(sum);
  expect_same_bits(shaped(3, 5, 16, 8192, true, true));
  ProductShape packed = shaped(1, 24, 40, 4096, true, false);
  packed.b_layout = Product::packed_b(cpu_device(1), shaped(1, 24, 40, 4096, false, false));
  EXPECT_EQ(Product::packed_b(cpu_device(1), packed), nullptr);
  if (packed.b_layout) expect_same_bits(packed);
}

TEST(Threads, RandomProductsHaveTheSameBits) {
  std::mt19937 random(5);
  for (int i = 0; i < 150; ++i) {
    const auto extent = [&] { return pick(random, {1, 2, 5, 16, 29, 48, 64, 65, 129, 300}); };
    const int64_t batch = pick(random, {1, 1, 1, 2, 5});
    const int64_t k = pick(random, {1, 33, 600, 1025, 2047, 2048, 2500, 3000, 4096});
    ProductShape s =
        shaped(batch, extent(), extent(), k, random() % 2, random() % 2, batch > 1 && random() % 2);
    if (s.batch * s.m * s.n * s.k > 60e6) continue;
    s.accumulate = random() % 3 == 0, s.bias = batch == 1 && random() % 3 == 0;
    if (Product::has_bf16() && random() % 3 == 0) s.in = DType::bf16;
    expect_same_bits(s);
  }
}

// On AMX k was taken in as many goes as the threads' shares of m and n left room for in a cache.
TEST(Threads, ProductsOfTilesHaveTheSameBits) {
  if (!Product::has_bf16()) GTEST_SKIP() << "this processor multiplies no bf16";
  const auto tiles = [](ProductShape s, bool sum, bool bias) {
    s.in = DType::bf16, s.accumulate = sum, s.bias = bias;
    expect_same_bits(s);
  };
  tiles(shaped(1, 300, 48, 3000, false, false), false, false);  // parts: slabs of rows
  tiles(shaped(1, 512, 300, 1024, false, true), true, true);
  tiles(shaped(1, 64, 300, 2048, true, false), true, true);  // pieces of k
  tiles(shaped(1, 65, 65, 1000, true, false), true, false);
  tiles(shaped(1, 65, 1000, 600, true, false), true, true);
  tiles(shaped(1, 1000, 1600, 1000, true, false), false, false);
  tiles(shaped(1, 300, 300, 1024, true, true), true, true);      // one thread
  tiles(shaped(1, 64, 1024, 3000, false, false), false, false);  // slabs of columns, as a batch
  tiles(shaped(1, 128, 512, 1000, false, true), true, false);
  tiles(shaped(1, 65, 64, 4000, false, true), false, false);
  tiles(shaped(5, 16, 512, 2048, true, false), false, false);  // an element of the batch each
  tiles(shaped(5, 5, 300, 2048, true, false, true), false, false);
  tiles(shaped(1, 64, 64, 2500, false, false), false, false);  // whole, by up to 15
  // Of one row it cannot be told from the strides whether a is transposed.
  tiles(shaped(1, 1, 300, 2048, false, false), false, false);
  tiles(shaped(1, 1, 512, 2500, true, false), true, false);
}

// Few columns leave room for sums in one go. Those of a transposed b lie one behind the other.
TEST(Threads, ColumnsThatAreOneSumEachAreSoBesideOthers) {
  constexpr int64_t kRows = 64, kColumns = 1024, kFew = 64, kTerms = 2048;
  const TileSum sum{.batch = kColumns / kFew, .m = kRows, .n = kFew, .k = kTerms};
  if (dnnl::get_effective_cpu_isa() != dnnl::cpu_isa::avx512_core_amx ||
      threads_of_tile_sum(sum) == 0) {
    GTEST_SKIP() << "this processor has no tiles, or a small cache";
  }
  Numbers given{numbers(kRows * kTerms, 1), numbers(kColumns * kTerms, 2), {}};
  for (Floats* floats : {&given.a, &given.b}) keep_upper_halves(*floats);
  const auto columns = [&](int64_t n, int threads) {
    ProductShape s = shaped(1, kRows, n, kTerms, false, true);
    s.in = DType::bf16;
    given.c.assign(size_t(kRows * n), 0);
    const Floats all = product(s, given, threads);
    Floats first;
    for (int64_t row = 0; row < kRows; ++row) {
      first.insert(first.end(), &all[size_t(row * n)], &all[size_t(row * n)] + kFew);
    }
    return first;
  };
  const Floats alone = columns(kFew, 1);
  for (const int threads : {1, 2, 8}) EXPECT_EQ(columns(kColumns, threads), alone) << threads;
}

// How b is packed may depend on the number of threads; what comes of it may not.
TEST(Threads, ProductsOfPackedOperandsHaveTheSameBits) {
  const std::array<int64_t, 3> shapes[] = {
      {32, 64, 9216}, {64, 512, 4096}, {64, 1024, 2048}, {500, 300, 3000}, {16, 256, 512}};
  for (const DType in : {DType::f32, DType::bf16}) {
    if (in == DType::bf16 && !Product::has_bf16()) continue;
    for (const auto& mnk : shapes) {
      const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
      ProductShape s = shaped(1, m, n, k, false, false);
      s.in = in;
      // Of eight bits each, which bf16 holds; their sums need rounding.
      const auto operand = [](int64_t count, uint32_t seed) {
        std::mt19937 random(seed);
        Floats values;
        for (int64_t i = 0; i < count; ++i) {
          values.push_back(std::ldexp(1.0f + float(random() % 128) / 128, int(random() % 9)));
        }
        return values;
      };
      const auto coded = [&](const Floats& values) {
        std::vector<std::byte> bytes(values.size() * size_t(bits(in) / 8));
        for (size_t i = 0; i < values.size(); ++i) {
          const auto* from =
              reinterpret_cast<const std::byte*>(&values[i]) + (in == DType::bf16) * 2;
          std::memcpy(bytes.data() + i * size_t(bits(in) / 8), from, size_t(bits(in) / 8));
        }
        return bytes;
      };
      const std::vector<std::byte> a = coded(operand(m * k, 1)), b = coded(operand(k * n, 2));
      const auto result = [&](int threads, Layout packed) {
        std::vector<std::byte> own = b;
        if (packed) {
          own.resize(size_t(packed->bytes));
          const auto plain = onednn::plain({{k, n}, in});
          const auto chosen = *static_cast<const onednn::Desc*>(packed->descriptor.get());
          const auto pack = onednn::reorder(plain, chosen);
          std::vector<std::byte> scratch(size_t(pack->scratch_bytes()) + 1);
          pack->run({b.data(), own.data(), scratch.data()}, 1);
        }
        ProductShape shape = s;
        shape.b_layout = packed;
        const Product product(cpu_device(threads), shape);
        Workspace workspace(product.workspace());
        Floats c(size_t(m * n));
        product.run(a.data(), own.data(), c.data(), nullptr, workspace.at(), {.workers = threads});
        return c;
      };
      const Floats once = result(1, nullptr);
      for (const int threads : {1, 2, 15, 24}) {
        EXPECT_EQ(result(threads, nullptr), once) << m << " " << n << " " << k << " " << threads;
        if (const Layout packed = Product::packed_b(cpu_device(threads), s)) {
          EXPECT_EQ(result(threads, packed), once) << m << " " << n << " " << k << " " << threads;
        }
      }
    }
  }
}

// oneDNN 2.6.3 has an illegal instruction where AMX would have 31 terms left over.
TEST(Threads, ProductsOfTilesHaveAnyNumberOfTerms) {
  if (!Product::has_bf16()) GTEST_SKIP() << "this processor multiplies no bf16";
  for (const int64_t k : {31, 63, 1000, 1855, 2047, 2500, 4095}) {
    for (const int64_t m : {65, 129, 193}) {
      for (const int64_t n : {1, 5, 29}) {
        for (const bool ta : {false, true}) {
          ProductShape s = shaped(1, m, n, k, ta, false);
          s.in = DType::bf16;
          // Ones, also where nothing is to be read.
          const int64_t behind = 32 * m;
          std::vector<uint16_t> a(size_t(m * k + behind), 0x3F80),
              b(size_t(k * n + behind), 0x3F80);
          const Product product(cpu_device(2), s);
          Workspace workspace(product.workspace());
          Floats c(size_t(m * n));
          product.run(a.data(), b.data(), c.data(), nullptr, workspace.at(), {.workers = 2});
          EXPECT_EQ(c, Floats(size_t(m * n), float(k))) << m << " " << n << " " << k << " " << ta;
        }
      }
    }
  }
}

// A sum may be of any length where no tiles cut it.
TEST(Threads, ProductsOfFloatsAreOfferedPackedOperandsForAnyNumberOfTerms) {
  const auto packs = [](int64_t k) {
    return Product::packed_b(cpu_device(2), shaped(1, 64, 512, k, false, false)) != nullptr;
  };
  EXPECT_EQ(packs(512), packs(64));  // not on every processor
  EXPECT_EQ(packs(1 << 16), packs(64));
}

// Pointers as ConvKernel::run takes them.
Floats convolution(ConvKind kind, const ConvShape& s, const Floats& a, const Floats& b,
                   const Floats& extra, int threads) {
  Shape weights{s.o};
  for (int i = 0; i < s.axes; ++i) weights.append(s.axis[size_t(i)].kernel);
  weights.append(s.c / s.groups);
  const ConvKernel kernel(cpu_device(threads), kind, s, {weights});
  Workspace workspace(kernel.workspace());
  const int64_t x = s.n * s.pixels_in() * s.c, y = s.n * s.pixels_out() * s.o;
  Floats out(size_t(kind == ConvKind::forward ? y : kind == ConvKind::data_grad ? x : s.weights()));
  kernel.run(a.data(), b.data(), out.data(), s.bias || s.accumulate ? extra.data() : nullptr,
             workspace.at(), {.workers = threads});
  return out;
}

void expect_same_bits(ConvShape s) {
  const Floats x = numbers(s.n * s.pixels_in() * s.c, 1), w = numbers(s.weights(), 2);
  const Floats dy = numbers(s.n * s.pixels_out() * s.o, 3);
  const bool bias = s.bias, accumulate = s.accumulate;
  for (const ConvKind kind : {ConvKind::forward, ConvKind::data_grad, ConvKind::weight_grad}) {
    s.bias = bias && kind == ConvKind::forward;
    s.accumulate = accumulate && kind == ConvKind::weight_grad;
    const Floats& a = kind == ConvKind::data_grad ? dy : x;
    const Floats& b = kind == ConvKind::weight_grad ? dy : w;
    const Floats once = convolution(kind, s, a, b, w, 1);
    for (int threads : kThreads) {
      EXPECT_EQ(once, convolution(kind, s, a, b, w, threads))
          << threads << " threads, kind " << int(kind) << ": " << s.n << " images, " << s.c
          << " to " << s.o << " in " << s.groups << ", " << s.axis[0].in << "x" << s.axis[1].in
          << " kernel " << s.axis[0].kernel << "x" << s.axis[1].kernel << " stride "
          << s.axis[0].stride << " before " << s.axis[0].before << " bias " << bias;
    }
  }
}

ConvAxis axis(int64_t in, int64_t kernel, int64_t stride, int64_t pad) {
  return {in, kernel, (in + 2 * pad - kernel) / stride + 1, stride, pad, pad};
}

TEST(Threads, ConvolutionsOfWhichSumsWereCutHaveTheSameBits) {
  const auto shape = [](int64_t n, int64_t c, int64_t o, ConvAxis height, ConvAxis width) {
    return ConvShape{.axis = {height, width}, .n = n, .c = c, .o = o};
  };
  expect_same_bits(shape(3, 512, 192, axis(7, 3, 1, 1), axis(28, 3, 1, 1)));
  expect_same_bits(shape(16, 512, 64, axis(1, 5, 2, 2), axis(28, 5, 2, 2)));
  expect_same_bits(shape(8, 512, 64, axis(7, 5, 1, 0), axis(20, 5, 1, 0)));
  expect_same_bits(shape(3, 192, 3, axis(7, 7, 1, 0), axis(56, 7, 1, 0)));
}

TEST(Threads, RandomConvolutionsHaveTheSameBits) {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    ConvShape s{.axis = {},
                .n = pick(random, {1, 2, 3, 8, 9, 17}),
                .c = pick(random, {1, 3, 8, 16, 48, 100, 256}),
                .o = pick(random, {1, 7, 16, 48, 64, 100})};
    s.bias = random() % 2, s.accumulate = random() % 2;
    if (random() % 5 == 0) s.groups = s.o = s.c;
    for (ConvAxis& a : std::span(s.axis).first(2)) {
      const int64_t kernel = pick(random, {1, 1, 2, 3, 5});
      a = axis(std::max(kernel, pick(random, {1, 4, 7, 9, 14})), kernel, pick(random, {1, 1, 2}),
               random() % 2 ? kernel / 2 : 0);
    }
    if (s.n * s.pixels_out() * s.weights() > 40'000'000) continue;
    expect_same_bits(s);
  }
}

}  // namespace
}  // namespace pal
