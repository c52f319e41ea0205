// Attention on tensor cores, emulated: against plain loops in double, and no further from them than
// twice the separate operators of the same type are; the same bits in every order of threads, run
// again, and beside other sentences; and where other kernels have to do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "autograd/differentiate.h"
#include "core/scalars.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/sums/reduce.h"
#include "tests/emulation/fixture.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

using emulation::Order;

struct Config {
  int64_t T, S, B, heads, width;
  bool causal = false;
  std::vector<float> lengths = {};  // empty: all keys
  float dropout = 0;
  DType type = DType::bf16;
  float size = 2;  // of q and k: how far apart probabilities are
  unsigned seed = 1;

  int64_t D() const { return heads * width; }
  Shape q() const { return {T, B, D()}; }
  Shape k() const { return {S, B, D()}; }
  std::string text() const {
    std::ostringstream out;
    out << T << " queries, " << S << " keys, " << B << " x " << heads << " heads of " << width
        << (causal ? ", causal" : "") << ", dropout " << dropout << ", seed " << seed
        << ", lengths";
    for (float n : lengths) out << " " << n;
    return out.str();
  }
};

const StepScalars kNow{.step = 3, .seed_low = 7};

using Numbers = std::vector<float>;
struct Operands {
  Numbers q, k, v, dy;
};
// As the type stores them.
Operands operands_of(const Config& c) {
  std::mt19937 rng(c.seed);
  auto draw = [&](const Shape& shape, float size) {
    const TensorSpec spec{shape, c.type};
    Numbers out(size_t(spec.numel()));
    for (float& x : out) x = std::uniform_real_distribution<float>(-size, size)(rng);
    return decode(spec, encode(spec, out));
  };
  return {draw(c.q(), c.size), draw(c.k(), c.size), draw(c.k(), 1), draw(c.q(), 1)};
}

// out, dq, dk, dv, and of the one operator lse.
using Results = std::vector<Numbers>;

Results attend(const Config& c, const Operands& x, const Device& device, bool one = true,
               int offset = 0) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val q = b.input("q", {c.q(), c.type}), k = b.input("k", {c.k(), c.type});
  Val v = b.input("v", {c.k(), c.type}), dy = b.input("dy", {c.q(), c.type});
  AttentionMask mask{.causal = c.causal};
  if (!c.lengths.empty()) mask.lengths = b.input("lengths", {{c.B}, DType::i32});
  Val out = (one ? attention : attention_unfused)(q, k, v, c.heads, mask, c.dropout, scalars);
  auto d = differentiate(b, sum_all(mul(out, dy)), {q, k, v});
  b.output("out", out);
  for (int i = 0; i < 3; ++i) b.output("d" + std::to_string(i), d[size_t(i)]);
  KernelCache cache(device);
  Program program = b.take();
  ValueId lse = kNone;
  for (const Node& node : program.nodes) {
    if (node.op == &attention_op) lse = node.out[1];
  }
  Evaluator eval(std::move(program), {.cache = &cache, .offset = offset, .stride = offset});
  eval.set_bytes(eval.find("scalars"), std::as_bytes(std::span(&kNow, 1)));
  eval.set("q", x.q), eval.set("k", x.k), eval.set("v", x.v), eval.set("dy", x.dy);
  if (!c.lengths.empty()) eval.set("lengths", c.lengths);
  eval.run();
  Results results = {eval.floats("out"), eval.floats("d0"), eval.floats("d1"), eval.floats("d2")};
  if (lse != kNone) results.push_back(eval.floats(lse));
  return results;
}

using Exact = std::vector<std::vector<double>>;

// The formulas of ops/attention/attention_kernel.cc, in double: out, dq, dk, dv, lse; and how far
// dq and dk go for every unit that the elements of out are rounded by, of which delta is made.
// `round`: what becomes of the factors of products.
template <class R> Exact formulas(const Config& c, const Operands& x, R round) {
  Exact r = {std::vector<double>(x.q.size()),
             std::vector<double>(x.q.size()),
             std::vector<double>(x.k.size()),
             std::vector<double>(x.k.size()),
             std::vector<double>(size_t(c.B * c.heads * c.T)),
             std::vector<double>(x.q.size()),
             std::vector<double>(x.k.size())};
  std::vector<float> factors(size_t(c.B * c.heads * c.T * c.S + 4), 1.0f);
  if (c.dropout > 0) {
    const RandomKey key = kNow.key(uint32_t(Builder().next_stream()));  // a program's first
    dropout_factors(key, 0, c.B * c.heads * c.T * c.S, c.dropout, factors.data());
  }
  const double scale = 1 / std::sqrt(double(c.width));
  for (int64_t unit = 0; unit < c.B * c.heads; ++unit) {
    const int64_t b = unit / c.heads;
    const int64_t limit = c.lengths.empty() ? c.S : int64_t(c.lengths[size_t(b)]);
    auto at = [&](int64_t row, int64_t e) {
      return size_t(((row * c.B + b) * c.heads + unit % c.heads) * c.width + e);
    };
    auto dot = [&](const Numbers& a, int64_t i, const Numbers& other, int64_t j) {
      double sum = 0;
      for (int64_t e = 0; e < c.width; ++e) {
        sum += round(double(a[at(i, e)])) * round(double(other[at(j, e)]));
      }
      return sum;
    };
    for (int64_t t = 0; t < c.T; ++t) {
      const int64_t n = c.causal ? std::min(limit, t + 1) : limit;
      std::vector<double> p((size_t(n)));
      double most = -INFINITY, total = 0, delta = 0;
      for (int64_t j = 0; j < n; ++j) {
        most = std::max(most, p[size_t(j)] = scale * dot(x.q, t, x.k, j));
      }
      for (double& e : p) total += e = std::exp(e - most);
      r[4][size_t(unit * c.T + t)] = n ? most + std::log(total) : 0;
      const float* m = factors.data() + (unit * c.T + t) * c.S;
      for (int64_t j = 0; j < n; ++j) {
        p[size_t(j)] /= total;
        const double kept = p[size_t(j)] * double(m[j]);
        delta += kept * dot(x.dy, t, x.v, j);
        for (int64_t e = 0; e < c.width; ++e) {
          r[0][at(t, e)] += round(kept) * round(double(x.v[at(j, e)]));
          r[3][at(j, e)] += round(kept) * round(double(x.dy[at(t, e)]));
        }
      }
      double moved = 0;
      for (int64_t e = 0; e < c.width; ++e) {
        moved += std::pow(double(x.dy[at(t, e)]) * r[0][at(t, e)], 2);
      }
      for (int64_t j = 0; j < n; ++j) {
        const double far = scale * p[size_t(j)] * std::sqrt(moved);
        const double ds = p[size_t(j)] * (double(m[j]) * dot(x.dy, t, x.v, j) - delta) * scale;
        for (int64_t e = 0; e < c.width; ++e) {
          r[1][at(t, e)] += round(ds) * round(double(x.k[at(j, e)]));
          r[2][at(j, e)] += round(ds) * round(double(x.q[at(t, e)]));
          r[5][at(t, e)] += far * std::abs(double(x.k[at(j, e)]));
          r[6][at(j, e)] += far * std::abs(double(x.q[at(t, e)]));
        }
      }
    }
  }
  return r;
}

Exact exact(const Config& c, const Operands& x) {
  return formulas(c, x, [](double factor) { return factor; });
}
Exact with_tf32(const Config& c, const Operands& x) {
  return formulas(c, x, [](double factor) {
    return double(bits_float((float_bits(float(factor)) + 0x1000u) & ~0x1fffu));
  });
}

struct Error {
  double most = 0, mean = 0;  // the largest, and the root of the mean square
};
template <class T> Error error_of(const std::vector<T>& got, const std::vector<double>& want) {
  Error out;
  for (size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(double(got[i]) - want[i]);
    out.most = std::isnan(off) ? INFINITY : std::max(out.most, off);
    out.mean += off * off;
  }
  out.mean = std::sqrt(out.mean / double(std::max<size_t>(got.size(), 1)));
  return out;
}
double size_of(const std::vector<double>& x) {
  double size = 0;
  for (double e : x) size = std::max(size, std::abs(e));
  return size;
}

const char* const kNames[] = {"out", "dq", "dk", "dv", "lse"};

class AttentionCores : public OnGpu {
 protected:
  static Device device(bool tf32 = false) {
    Device d = cuda_device();
    d.tf32 = tf32;
    return d;
  }

  // No further from the exact results than twice the separate operators are, of TF32 the formulas
  // with factors rounded so: a library may leave some as they are. Where those are exact (one key,
  // say), than half a unit in the last place of the largest, or of out by way of delta.
  static void expect_close(const Config& c) {
    SCOPED_TRACE(c.text());
    const Operands x = operands_of(c);
    const Exact want = exact(c, x);
    const Device d = device(c.type == DType::f32);
    const Results got = attend(c, x, d);
    std::vector<Error> others;
    if (c.type == DType::f32) {
      const Exact rounded = with_tf32(c, x);
      for (size_t r = 0; r < 4; ++r) others.push_back(error_of(rounded[r], want[r]));
    } else {
      const Results apart = attend(c, x, d, false);
      for (size_t r = 0; r < 4; ++r) others.push_back(error_of(apart[r], want[r]));
    }
    const double unit = c.type == DType::bf16 ? 0x1p-9 : 0x1p-12;
    for (size_t r = 0; r < 4; ++r) {
      const Error mine = error_of(got[r], want[r]);
      const double delta = r == 1 || r == 2 ? 2 * size_of(want[r + 4]) : 0;
      const double least = unit * (size_of(want[r]) + delta) + 1e-7;
      EXPECT_LE(mine.most, std::max(2 * others[r].most, least)) << kNames[r];
      EXPECT_LE(mine.mean, std::max(2 * others[r].mean, 0.5 * least)) << kNames[r];
    }
    // Scores are sums of exact products of bf16; of factors rounded to TF32 their roundings.
    const double scores = size_of(want[4]) + double(c.size * c.size) * std::sqrt(double(c.width));
    EXPECT_LE(error_of(got[4], want[4]).most, (c.type == DType::bf16 ? 0x1p-20 : 0x1p-11) * scores)
        << "lse";
  }
};

Config random_config(std::mt19937& rng, DType type, int64_t widest) {
  auto upto = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(rng);
  };
  Config c{.T = upto(1, 150),
           .S = upto(1, 150),
           .B = upto(1, 2),
           .heads = upto(1, 2),
           .width = upto(1, widest),
           .type = type,
           .seed = unsigned(rng())};
  if (upto(0, 1)) c.width = std::min(widest, (c.width + 7) / 8 * 8);  // rows of whole groups
  if (upto(0, 2) == 0) c.S = 64 * upto(1, 2), c.T = upto(0, 1) ? 64 : c.T;
  if (upto(0, 1)) c.causal = true, c.S = c.T;
  if (upto(0, 1)) {
    for (int64_t b = 0; b < c.B; ++b) c.lengths.push_back(float(upto(0, c.S)));
  }
  if (upto(0, 1)) c.dropout = upto(0, 1) ? 0.1f : 0.5f;
  if (upto(0, 3) == 0) c.size = 0.1f;
  return c;
}

TEST_F(AttentionCores, Bf16IsAsCloseAsSeparateOperators) {
  std::mt19937 rng(1);
  for (int i = 0; i < 60; ++i) {
    emulation::settings().order = Order(i % 3);
    expect_close(random_config(rng, DType::bf16, 128));
  }
}
TEST_F(AttentionCores, Tf32IsAsCloseAsSeparateOperators) {
  std::mt19937 rng(2);
  for (int i = 0; i < 40; ++i) {
    emulation::settings().order = Order(i % 3);
    expect_close(random_config(rng, DType::f32, 64));
  }
}

// Nothing is rounded between tiles: the terms are, and the result. Terms of either sign that are
// rounded move their sum about as far as its own rounding does, both together by the root of two.
TEST_F(AttentionCores, Bf16IsRoundedOnce) {
  for (const float dropout : {0.0f, 0.2f}) {
    const Config c{
        .T = 400, .S = 520, .B = 1, .heads = 1, .width = 24, .dropout = dropout, .size = 0.5f};
    const Operands x = operands_of(c);
    const Exact want = exact(c, x);
    const Results got = attend(c, x, device());
    for (size_t r = 0; r < 4; ++r) {
      const TensorSpec spec{{int64_t(want[r].size())}, DType::bf16};
      const Numbers once = decode(spec, encode(spec, Numbers(want[r].begin(), want[r].end())));
      EXPECT_LT(error_of(got[r], want[r]).mean, 1.5 * error_of(once, want[r]).mean) << kNames[r];
    }
  }
}

// One of each kind of kernel.
std::vector<Config> samples() {
  return {
      {.T = 70, .S = 130, .B = 2, .heads = 2, .width = 64, .lengths = {65, 130}, .dropout = 0.3f},
      {.T = 67, .S = 67, .B = 1, .heads = 2, .width = 100, .causal = true, .dropout = 0.1f},
      {.T = 33, .S = 70, .B = 2, .heads = 1, .width = 31, .lengths = {0, 9}},
      {.T = 65,
       .S = 65,
       .B = 1,
       .heads = 2,
       .width = 48,
       .causal = true,
       .dropout = 0.2f,
       .type = DType::f32},
      {.T = 40, .S = 71, .B = 2, .heads = 1, .width = 20, .lengths = {71, 33}, .type = DType::f32}};
}

TEST_F(AttentionCores, SameBitsInEveryOrderAndPlace) {
  for (const Config& c : samples()) {
    SCOPED_TRACE(c.text());
    const Operands x = operands_of(c);
    const Device d = device(c.type == DType::f32);
    const Results want = attend(c, x, d);
    for (Order order : {Order::forward, Order::backward, Order::shuffled}) {
      emulation::settings().order = order;
      for (const int offset : {0, 2, 20}) EXPECT_EQ(attend(c, x, d, true, offset), want);
    }
    emulation::settings().order = Order::forward;
  }
}

// Sentence b alone, with the keys that it has.
TEST_F(AttentionCores, PaddingAndNeighboursChangeNoBit) {
  for (Config c : samples()) {
    if (c.lengths.empty()) continue;
    c.dropout = 0;  // whose numbers are those of the place in the batch
    SCOPED_TRACE(c.text());
    const Device d = device(c.type == DType::f32);
    Operands x = operands_of(c);
    const Results all = attend(c, x, d);
    for (int64_t b = 0; b < c.B; ++b) {
      Config one = c;
      one.B = 1, one.S = int64_t(c.lengths[size_t(b)]), one.lengths = {};
      if (one.S == 0) continue;
      auto own = [&](const Numbers& from, int64_t rows) {
        Numbers out;
        for (int64_t t = 0; t < rows; ++t) {
          const auto row = from.begin() + (t * c.B + b) * c.D();
          out.insert(out.end(), row, row + c.D());
        }
        return out;
      };
      const Results alone =
          attend(one, {own(x.q, c.T), own(x.k, one.S), own(x.v, one.S), own(x.dy, c.T)}, d);
      for (size_t r = 0; r < 4; ++r) {
        EXPECT_EQ(alone[r], own(all[r], r < 2 ? c.T : one.S)) << kNames[r] << " of " << b;
      }
    }
  }
}

// Whatever lies there; where all scores are so low that e^-lse is infinite, too.
TEST_F(AttentionCores, KeysBeyondALengthAreNotRead) {
  for (const Config& c : samples()) {
    if (c.lengths.empty()) continue;
    for (const bool low : {false, true}) {
      SCOPED_TRACE(c.text());
      const Device d = device(c.type == DType::f32);
      Operands x = operands_of(c);
      if (low) {
        for (float& e : x.q) e = e * 0.25f + 12;
        for (float& e : x.k) e = e * 0.25f - 12;
      }
      const Results want = attend(c, x, d);
      for (const Numbers& numbers : want) {
        for (float e : numbers) ASSERT_TRUE(std::isfinite(e));
      }
      EXPECT_EQ(std::ranges::min(want[4]) < -100, low);
      for (int64_t j = 0; j < c.S; ++j) {
        for (int64_t b = 0; b < c.B; ++b) {
          if (j < int64_t(c.lengths[size_t(b)])) continue;
          std::fill_n(x.k.begin() + (j * c.B + b) * c.D(), c.D(), NAN);
          std::fill_n(x.v.begin() + (j * c.B + b) * c.D(), c.D(), NAN);
        }
      }
      EXPECT_EQ(attend(c, x, d), want);
    }
  }
}

// What a node is copied to have again is the same.
TEST_F(AttentionCores, ANodeAgainHasItsBits) {
  for (const Config& c : samples()) {
    SCOPED_TRACE(c.text());
    const Operands x = operands_of(c);
    Builder b;
    std::vector<Val> in = {b.input("q", {c.q(), c.type}), b.input("k", {c.k(), c.type}),
                           b.input("v", {c.k(), c.type}), Val{},
                           b.input("scalars", scalars_spec())};
    const AttentionAttrs attrs{.heads = c.heads, .causal = c.causal, .dropout = c.dropout};
    for (int i = 0; i < 2; ++i) {
      b.output("out" + std::to_string(i), b.emit(attention_op, in, attrs)[0]);
    }
    KernelCache cache(device(c.type == DType::f32));
    Evaluator eval(b.take(), {.cache = &cache, .offset = 0, .stride = 6});
    eval.set_bytes(eval.find("scalars"), std::as_bytes(std::span(&kNow, 1)));
    eval.set("q", x.q), eval.set("k", x.k), eval.set("v", x.v);
    eval.run();
    EXPECT_EQ(eval.floats("out0"), eval.floats("out1"));
  }
}

// Turing has no such tensor cores, and f32 is multiplied as such unless the device is told
// otherwise: there the results are the processor's, bit by bit.
TEST_F(AttentionCores, OtherKernelsWhereTheyCannot) {
  if (emulation::real()) GTEST_SKIP() << "the card is what it is";
  const Config half = samples()[0];
  Config whole = half;
  whole.type = DType::f32;
  Config wide = half;
  wide.width = 130;
  for (const Config& c : {half, whole, wide}) {
    SCOPED_TRACE(c.text());
    const Operands x = operands_of(c);
    const Results processor = attend(c, x, cpu_device(1));
    emulation::settings() = {};
    EXPECT_EQ(attend(c, x, device()) == processor, c.type == DType::f32 || c.width > 128);
    EXPECT_EQ(attend(c, x, device(true)) == processor, c.width > 128);
    emulation::settings().major = 7, emulation::settings().minor = 5;
    EXPECT_EQ(attend(c, x, device(true)), processor);
  }
}

}  // namespace
}  // namespace pal::test
