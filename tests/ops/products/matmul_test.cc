// matmul and batched_matmul against sums in double, and the promise that bits depend neither on
// threads nor on addresses; packed operands.
#include "ops/products/matmul.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/builder.h"
#include "core/error.h"
#include "core/prepare.h"
#include "memory/passes/layouts.h"
#include "ops/products/batched_matmul.h"
#include "ops/tensors/reorder.h"
#include "tests/support/eval.h"
#include "tests/support/numbers.h"

namespace pal {
namespace {

using test::Evaluator;
using test::numbers;
using Floats = std::vector<float>;

struct Case {
  int64_t m, n, k;
  bool ta = false, tb = false, sum = false, bias = false;
};

Program record(const Case& c) {
  Builder builder;
  Val a = builder.input("a", {c.ta ? Shape{c.k, c.m} : Shape{c.m, c.k}});
  Val b = builder.input("b", {c.tb ? Shape{c.n, c.k} : Shape{c.k, c.n}});
  Val sum = c.sum ? builder.input("c", {{c.m, c.n}}) : Val{};
  Val bias = c.bias ? builder.input("bias", {{c.n}}) : Val{};
  builder.output("y", builder.emit1(matmul_op, {a, b, sum, bias}, MatmulAttrs{c.ta, c.tb}));
  return builder.take();
}

void fill(Evaluator& eval, const Case& c) {
  eval.set("a", numbers(c.m * c.k, 1));
  eval.set("b", numbers(c.k * c.n, 2));
  if (c.sum) eval.set("c", numbers(c.m * c.n, 3));
  if (c.bias) eval.set("bias", numbers(c.n, 4));
}

Floats run(const Case& c, test::EvalOptions options = {}) {
  Evaluator eval(record(c), options);
  fill(eval, c);
  eval.run();
  return eval.floats("y");
}

void expect_right(const Case& c, const Floats& y) {
  const Floats a = numbers(c.m * c.k, 1), b = numbers(c.k * c.n, 2);
  const Floats sum = numbers(c.m * c.n, 3), bias = numbers(c.n, 4);
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double want = (c.sum ? sum[size_t(i * c.n + j)] : 0) + (c.bias ? bias[size_t(j)] : 0);
      for (int64_t k = 0; k < c.k; ++k) {
        want += double(a[size_t(c.ta ? k * c.m + i : i * c.k + k)]) *
                double(b[size_t(c.tb ? j * c.k + k : k * c.n + j)]);
      }
      ASSERT_NEAR(y[size_t(i * c.n + j)], want, 1e-5 * std::sqrt(double(c.k)) * 4)
          << i << "," << j << " of " << c.m << "x" << c.n << "x" << c.k;
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      for (bool sum : {false, true}) {
        out.push_back({67, 45, 33, ta, tb, sum, !sum});
        out.push_back({1, 130, 65, ta, tb, sum, sum});
        out.push_back({96, 1, 257, ta, tb, sum, false});
        out.push_back({128, 200, 700, ta, tb, sum, false});  // k in several blocks
      }
    }
  }
  return out;
}

TEST(Matmul, AgreesWithSumsInDouble) {
  for (const Case& c : cases()) expect_right(c, run(c));
}

TEST(Matmul, BitsDependNeitherOnThreadsNorOnAddresses) {
  for (const Case& c : cases()) {
    const Floats once = run(c);
    for (int threads : {2, 3}) EXPECT_EQ(once, run(c, {.threads = threads}));
    for (int offset = 4; offset < 64; offset += 12) {
      EXPECT_EQ(once, run(c, {.threads = 2, .offset = offset, .stride = 20}));
    }
  }
}

TEST(Matmul, LeadingAxesCountAsRowsAndAreSummedOver) {
  Builder builder;
  Val a = builder.input("a", {{2, 3, 4}}), w = builder.input("w", {{4, 5}});
  Val y = matmul(a, w), dw = matmul(a, y, true);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(dw.shape(), (Shape{4, 5}));
  Val rows = builder.input("rows", {{3, 2, 5}});
  EXPECT_THROW(matmul(a, rows, true), ProgramError);
  EXPECT_THROW(matmul(a, builder.input("v", {{5, 4}})), ProgramError);
}

TEST(Matmul, PackedOperandGivesTheSameBits) {
  const Case c{.m = 24, .n = 200, .k = 90, .tb = true};
  const Program plain = record(c);
  KernelCache cache(cpu_device(2));
  LayoutsEffect effect;
  const Program packed = choose_layouts(plain, cache, &effect);
  if (effect.reorders == 0) GTEST_SKIP() << "this processor's kernel reads plain operands";
  ASSERT_EQ(packed.node_count(), plain.node_count() + 1);
  EXPECT_EQ(packed.node(0).op, &reorder_op);
  EXPECT_EQ(
      packed.node(0).attrs.print().rfind(packed.value(packed.node(0).out[0]).spec.layout->tag, 0),
      0u);
  Evaluator eval(packed, {.threads = 2});
  fill(eval, c);
  eval.run();
  EXPECT_EQ(eval.floats("y"), run(c));
}

// A classifier's matrix, which one product reads: a packed copy would take as many bytes again.
TEST(Matmul, LargeMatricesAreNotPacked) {
  KernelCache cache(cpu_device(1));
  for (const int64_t k : {1024, 9216}) {
    LayoutsEffect effect;
    choose_layouts(record({.m = 32, .n = 4096, .k = k}), cache, &effect);
    if (k == 1024 && effect.reorders == 0) GTEST_SKIP() << "this processor packs nothing";
    EXPECT_EQ(effect.reorders, k == 1024);
  }
}

// The time-major forms that attention uses, against loops.
TEST(BatchedMatmul, ReadsTimeMajorOperandsInPlace) {
  const int64_t T = 7, S = 9, B = 5, D = 6;
  Builder builder;
  Val q = builder.input("q", {{T, B, D}}), k = builder.input("k", {{S, B, D}});
  Val v = builder.input("v", {{S, B, D}});
  Val scores = batched_matmul(q, k, {.tb = true, .a_batch = 1, .b_batch = 1});
  Val context = batched_matmul(scores, v, {.b_batch = 1, .out_batch = 1});
  ASSERT_EQ(scores.shape(), (Shape{B, T, S}));
  ASSERT_EQ(context.shape(), (Shape{T, B, D}));
  builder.output("context", context);
  Evaluator eval(builder.take());
  const Floats fq = numbers(T * B * D, 1), fk = numbers(S * B * D, 2), fv = numbers(S * B * D, 3);
  eval.set("q", fq), eval.set("k", fk), eval.set("v", fv);
  eval.run();
  const Floats got = eval.floats("context");
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t d = 0; d < D; ++d) {
        double want = 0;
        for (int64_t s = 0; s < S; ++s) {
          double score = 0;
          for (int64_t e = 0; e < D; ++e) {
            score +=
                double(fq[size_t((t * B + b) * D + e)]) * double(fk[size_t((s * B + b) * D + e)]);
          }
          want += score * double(fv[size_t((s * B + b) * D + d)]);
        }
        EXPECT_NEAR(got[size_t((t * B + b) * D + d)], want, 1e-4);
      }
    }
  }
}

TEST(Matmul, ABatchedOperandIsNotPacked) {
  TensorSpec packed{{2, 3, 5}};
  const auto refusal = [&] {
    const Specs in{{{2, 3, 4}}, packed, {}, {}};
    try {
      infer_specs(matmul_op, in, MatmulAttrs{.ta = true});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(), "");
  packed.layout = std::make_shared<BlockedLayout>();
  EXPECT_NE(refusal().find("only two axes may be packed"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace pal
