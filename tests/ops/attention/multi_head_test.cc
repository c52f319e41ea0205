// The Transformer's attention: fused against unfused and against plain loops in double, masks,
// dropout, padding, one query beside a cache; and sinusoidal positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "autograd/differentiate.h"
#include "core/scalars.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_step.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/element_types.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/positions.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

std::vector<float> noise(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<float> out((size_t(n)));
  for (float& x : out) x = std::uniform_real_distribution<float>(-1, 1)(rng);
  return out;
}

struct Sizes {
  int64_t T, S, B, D, heads;
};

using Results = std::vector<std::vector<float>>;  // out, dq, dk, dv

// One attention and its gradients under a random cotangent.
Results attend(Sizes s, bool fused, const std::vector<float>& lengths, bool causal, float dropout,
               int threads = 1) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val q = b.input("q", {{s.T, s.B, s.D}});
  Val k = b.input("k", {{s.S, s.B, s.D}}), v = b.input("v", {{s.S, s.B, s.D}});
  Val dy = b.input("dy", {{s.T, s.B, s.D}});
  AttentionMask mask{.causal = causal};
  if (!lengths.empty()) mask.lengths = b.input("lengths", {{s.B}, DType::i32});
  Val out = (fused ? attention : attention_unfused)(q, k, v, s.heads, mask, dropout, scalars);
  auto d = differentiate(b, sum_all(mul(out, dy)), {q, k, v});
  b.output("out", out);
  for (int i = 0; i < 3; ++i) b.output("d" + std::to_string(i), d[size_t(i)]);
  Evaluator eval(b.take(), {.threads = threads});
  const StepScalars now{.step = 3, .seed_low = 7};
  eval.set_bytes(eval.find("scalars"), std::as_bytes(std::span(&now, 1)));
  eval.set("q", noise(s.T * s.B * s.D, 1)), eval.set("k", noise(s.S * s.B * s.D, 2));
  eval.set("v", noise(s.S * s.B * s.D, 3)), eval.set("dy", noise(s.T * s.B * s.D, 4));
  if (!lengths.empty()) eval.set("lengths", lengths);
  eval.run();
  return {eval.floats("out"), eval.floats("d0"), eval.floats("d1"), eval.floats("d2")};
}

// dq, dk and dv of attention_grad from the numbers of a type, in that type.
Results grads_in(DType type, const Sizes& s, bool causal, const Results* values, Results* set) {
  Builder b;
  const Shape q{s.T, s.B, s.D}, k{s.S, s.B, s.D};
  std::vector<Val> in{b.input("x0", {q, type}), b.input("x1", {{s.B, s.heads, s.T}})};
  for (const Shape& shape : {q, q, k, k}) {
    in.push_back(b.input("x" + std::to_string(in.size()), {shape, type}));
  }
  in.resize(8);
  const auto out =
      b.emit(attention_grad_op, in, AttentionAttrs{.heads = s.heads, .causal = causal});
  for (int i = 0; i < 3; ++i) b.output("d" + std::to_string(i), out[size_t(i)]);
  Evaluator eval(b.take());
  for (unsigned i = 0; i < 6; ++i) {
    const std::string name = "x" + std::to_string(i);
    const int64_t n = eval.program().value(eval.find(name)).spec.numel();
    eval.set(name, values ? (*values)[i] : noise(n, i + 1));
    if (set) set->push_back(eval.floats(name));
  }
  eval.run();
  return {eval.floats("d0"), eval.floats("d1"), eval.floats("d2")};
}

// Sums over tiles of keys and of queries are f32: a bf16 gradient is that of f32, rounded once.
TEST(MultiHead, GradientsAreRoundedOnce) {
  for (const bool causal : {false, true}) {
    const Sizes sizes{200, 200, 2, 12, 2};
    Results values;
    const Results halves = grads_in(DType::bf16, sizes, causal, nullptr, &values);
    const Results whole = grads_in(DType::f32, sizes, causal, &values, nullptr);
    for (size_t r = 0; r < whole.size(); ++r) {
      for (size_t i = 0; i < whole[r].size(); ++i) {
        bf16 rounded;
        store(&rounded, 0, whole[r][i]);
        ASSERT_EQ(halves[r][i], load(&rounded, 0)) << "gradient " << r << " element " << i;
      }
    }
  }
}

// Keys and values beside each other, or all three, are read and written where they are.
TEST(MultiHead, SideBySideIsApart) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const int64_t joined : {2, 3}) {
      const Sizes s{37, 37, 2, 24, 3};
      const int64_t rows = s.T * s.B;
      // The columns of q, k and v, or of k and v alone, from one tensor.
      Results values;
      for (unsigned i = 0; i < 4; ++i) values.push_back(noise(rows * s.D, 1 + i));
      std::vector<float> side(size_t(rows * joined * s.D));
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t p = 0; p < joined; ++p) {
          const auto& part = values[size_t(p + 3 - joined)];
          std::copy_n(part.begin() + r * s.D, s.D, side.begin() + (r * joined + p) * s.D);
        }
      }
      auto run = [&](bool apart) {
        Builder b;
        const TensorSpec one{{s.T, s.B, s.D}, type}, many{{s.T, s.B, joined * s.D}, type};
        std::vector<Val> in;
        if (apart || joined == 2) in.push_back(b.input("q", one));
        if (apart) in.push_back(b.input("k", one)), in.push_back(b.input("v", one));
        if (!apart) in.push_back(b.input("side", many));
        Val dy = b.input("dy", one);
        const size_t given = in.size();
        in.resize(3);
        Val out = attention(in[0], in[1], in[2], s.heads, {.causal = true});
        in.resize(given);
        const auto d = differentiate(b, sum_all(mul(out, dy)), in);
        b.output("out", out);
        for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
        Evaluator eval(b.take());
        if (apart || joined == 2) eval.set("q", values[0]);
        if (apart) eval.set("k", values[1]), eval.set("v", values[2]);
        if (!apart) eval.set("side", side);
        eval.set("dy", values[3]);
        eval.run();
        Results results{eval.floats("out")};
        for (size_t i = 0; i < d.size(); ++i)
          results.push_back(eval.floats("d" + std::to_string(i)));
        return results;
      };
      const Results apart = run(true), together = run(false);
      EXPECT_EQ(apart[0], together[0]);
      if (joined == 2) {
        EXPECT_EQ(apart[1], together[1]);
      }
      const std::vector<float>& got = together.back();
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < joined * s.D; ++c) {
          const std::vector<float>& want = apart[size_t(1 + 3 - joined + c / s.D)];
          ASSERT_EQ(got[size_t(r * joined * s.D + c)], want[size_t(r * s.D + c % s.D)]);
        }
      }
    }
  }
}

void expect_near(const Results& a, const Results& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t r = 0; r < a.size(); ++r) {
    ASSERT_EQ(a[r].size(), b[r].size());
    float most = 0, size = 0;
    for (size_t i = 0; i < a[r].size(); ++i) {
      most = std::max(most, std::abs(a[r][i] - b[r][i]));
      size = std::max(size, std::abs(b[r][i]));
    }
    EXPECT_LE(most, tolerance * size) << "result " << r;
    EXPECT_GT(size, 1e-3f);
  }
}

TEST(MultiHead, FusedIsUnfusedButForRounding) {
  const Sizes all[] = {
      {5, 9, 3, 24, 3}, {40, 70, 2, 32, 2}, {67, 67, 2, 40, 4}, {33, 33, 1, 16, 1}};
  for (const Sizes& s : all) {
    std::vector<float> lengths;
    for (int64_t b = 0; b < s.B; ++b) lengths.push_back(float(s.S - 4 * b));
    for (const bool causal : {false, true}) {
      if (causal && s.T != s.S) continue;
      for (const float dropout : {0.0f, 0.3f}) {
        for (const bool masked : {false, true}) {
          const auto used = masked ? lengths : std::vector<float>{};
          SCOPED_TRACE(testing::Message() << s.T << "x" << s.S << " causal " << causal
                                          << " dropout " << dropout << " masked " << masked);
          expect_near(attend(s, true, used, causal, dropout),
                      attend(s, false, used, causal, dropout), 3e-6f);
        }
      }
    }
  }
}

TEST(MultiHead, IsTheFormula) {
  const Sizes s{3, 4, 2, 6, 2};
  const auto q = noise(s.T * s.B * s.D, 1), k = noise(s.S * s.B * s.D, 2);
  const auto v = noise(s.S * s.B * s.D, 3);
  const std::vector<float> lengths = {4, 2};
  for (const bool fused : {true, false}) {
    const std::vector<float> got = attend(s, fused, lengths, false, 0)[0];
    for (int64_t b = 0; b < s.B; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t d = s.D / s.heads;
        auto at = [&](int64_t t, int64_t e) { return size_t((t * s.B + b) * s.D + h * d + e); };
        for (int64_t t = 0; t < s.T; ++t) {
          std::vector<double> p;
          double total = 0;
          for (int64_t j = 0; j < int64_t(lengths[size_t(b)]); ++j) {
            double score = 0;
            for (int64_t e = 0; e < d; ++e) score += double(q[at(t, e)]) * double(k[at(j, e)]);
            p.push_back(std::exp(score / std::sqrt(double(d))));
            total += p.back();
          }
          for (int64_t e = 0; e < d; ++e) {
            double want = 0;
            for (size_t j = 0; j < p.size(); ++j) {
              want += p[j] / total * double(v[at(int64_t(j), e)]);
            }
            EXPECT_NEAR(double(got[at(t, e)]), want, 1e-6);
          }
        }
      }
    }
  }
}

// Sentence b alone, and its share of a batch in which keys are longer than it.
TEST(MultiHead, PaddingAndNeighboursChangeNoBit) {
  const Sizes wide{50, 90, 3, 16, 2};
  const std::vector<float> lengths = {90, 66, 0};
  const Results all = attend(wide, true, lengths, false, 0);
  for (const float x : all[0]) EXPECT_TRUE(std::isfinite(x));
  for (int64_t b : {0, 1}) {
    const int64_t S = int64_t(lengths[size_t(b)]), D = wide.D;
    Builder builder;
    Val q = builder.input("q", {{wide.T, 1, D}}), dy = builder.input("dy", {{wide.T, 1, D}});
    Val k = builder.input("k", {{S, 1, D}}), v = builder.input("v", {{S, 1, D}});
    Val out = attention(q, k, v, wide.heads);
    auto d = differentiate(builder, sum_all(mul(out, dy)), {q, k, v});
    builder.output("r0", out);
    for (int i = 0; i < 3; ++i) builder.output("r" + std::to_string(i + 1), d[size_t(i)]);
    Evaluator eval(builder.take());
    auto own = [&](const std::vector<float>& x, int64_t steps) {
      std::vector<float> out_rows;
      for (int64_t t = 0; t < steps; ++t) {
        const float* row = x.data() + (t * wide.B + b) * D;
        out_rows.insert(out_rows.end(), row, row + D);
      }
      return out_rows;
    };
    eval.set("q", own(noise(wide.T * wide.B * D, 1), wide.T));
    eval.set("k", own(noise(wide.S * wide.B * D, 2), S));
    eval.set("v", own(noise(wide.S * wide.B * D, 3), S));
    eval.set("dy", own(noise(wide.T * wide.B * D, 4), wide.T));
    eval.run();
    for (size_t r = 0; r < 4; ++r) {
      const int64_t steps = r < 2 ? wide.T : S;
      EXPECT_EQ(eval.floats("r" + std::to_string(r)), own(all[r], steps)) << b << " " << r;
    }
  }
}

TEST(MultiHead, DropoutDropsTheShareItShould) {
  const Sizes s{40, 40, 4, 8, 2};
  const Results without = attend(s, true, {}, false, 0), with = attend(s, true, {}, false, 0.5f);
  EXPECT_NE(with[0], without[0]);
  double sum = 0, other = 0;  // the mean is kept
  for (size_t i = 0; i < with[0].size(); ++i) sum += with[0][i], other += without[0][i];
  EXPECT_NEAR(sum / double(with[0].size()), other / double(with[0].size()), 0.02);
}

TEST(MultiHead, AStepBesideACacheIsTheLastRowOfAll) {
  const int64_t T = 70, B = 3, D = 24, heads = 3;
  const auto q = noise(T * B * D, 1), k = noise(T * B * D, 2), v = noise(T * B * D, 3);
  const std::vector<float> all = attend({T, T, B, D, heads}, true, {}, true, 0)[0];
  Builder b;
  const TensorSpec row{{B, D}}, cache{{T, B, D}};
  Val lengths = b.input("lengths", {{1}, DType::i32});
  Val keys = b.input("keys", cache), values = b.input("values", cache);
  Val query = b.input("q", row), key = b.input("key", row);
  Val value = b.input("value", row);
  b.output("out", attention_step(query, keys, values, lengths, heads, key, value));
  Evaluator eval(b.take());
  for (const int64_t t : {0, 1, 64, 69}) {
    auto rows = [&](const std::vector<float>& x, int64_t at) {
      return std::vector<float>(x.begin() + at * B * D, x.begin() + (at + 1) * B * D);
    };
    std::vector<float> seen_k = k, seen_v = v;  // beyond t: whatever lies there
    std::fill(seen_k.begin() + t * B * D, seen_k.end(), NAN);
    std::fill(seen_v.begin() + t * B * D, seen_v.end(), NAN);
    eval.set("lengths", {float(t)});
    eval.set("keys", seen_k), eval.set("values", seen_v);
    eval.set("q", rows(q, t)), eval.set("key", rows(k, t)), eval.set("value", rows(v, t));
    eval.run();
    const auto got = eval.floats("out"), want = rows(all, t);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << t;
  }
}

// Rows that lie in the places of others, as a beam leaves them: the bits of a cache in order.
TEST(MultiHead, AStepReadsRowsWhereTheyLie) {
  const int64_t T = 70, B = 3, D = 24, heads = 3;
  const auto q = noise(B * D, 1), k = noise(T * B * D, 2), v = noise(T * B * D, 3);
  std::vector<float> from(size_t(T * B)), moved_k = k, moved_v = v;
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t b = 0; b < B; ++b) {
      const int64_t row = (b * (1 + t % 2) + t / 3) % B;  // some twice, some never
      from[size_t(t * B + b)] = float(row);
      std::copy_n(k.begin() + (t * B + row) * D, D, moved_k.begin() + (t * B + b) * D);
      std::copy_n(v.begin() + (t * B + row) * D, D, moved_v.begin() + (t * B + b) * D);
    }
  }
  const auto step = [&](const std::vector<float>& keys, const std::vector<float>& values,
                        bool table) {
    Builder b;
    const TensorSpec row{{B, D}}, cache{{T, B, D}};
    Val lengths = b.input("lengths", {{1}, DType::i32});
    Val all_keys = b.input("keys", cache), all_values = b.input("values", cache);
    Val places = table ? b.input("from", {{T, B}, DType::i32}) : Val{};
    b.output("out", attention_step(b.input("q", row), all_keys, all_values, lengths, heads, {}, {},
                                   places));
    Evaluator eval(b.take());
    eval.set("lengths", {float(T - 2)}), eval.set("q", q);
    eval.set("keys", keys), eval.set("values", values);
    if (table) eval.set("from", from);
    eval.run();
    return eval.floats("out");
  };
  EXPECT_EQ(step(k, v, true), step(moved_k, moved_v, false));
  EXPECT_NE(step(k, v, true), step(k, v, false));
}

TEST(Positions, AreThoseOfThePaper) {
  const int64_t T = 5, B = 2, D = 6, first = 90;
  Builder b;
  Val x = b.input("x", {{T, B, D}}), at = b.input("at", {{1}, DType::i32});
  b.output("zero", add_positions(x, 2)), b.output("later", add_positions(x, 1, at));
  Evaluator eval(b.take());
  const auto xs = noise(T * B * D, 1);
  eval.set("x", xs), eval.set("at", {float(first)});
  eval.run();
  for (int64_t i = 0; i < T * B * D; ++i) {
    const int64_t t = i / (B * D), e = i % D;
    auto position = [&](double pos) {
      const double angle = pos / std::pow(10000.0, double(e / 2 * 2) / double(D));
      return e % 2 == 0 ? std::sin(angle) : std::cos(angle);
    };
    const double value = double(xs[size_t(i)]);
    EXPECT_NEAR(double(eval.floats("zero")[size_t(i)]), 2 * value + position(double(t)), 1e-6);
    EXPECT_NEAR(double(eval.floats("later")[size_t(i)]), value + position(double(first + t)), 1e-6);
  }
}

}  // namespace
}  // namespace pal::test
