// relu's gradient behind max pooling's: gone where the map can say that a maximum was no finite
// number above zero, and left where somebody else would notice; to the bit, for all kinds of
// numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/differentiate.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/passes/fuse_recompute.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/pooling.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "tests/memory/bits.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/passes/conv_network.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

// A pool over x, and the way back through it and through relu.
struct Pooled {
  Builder b;
  Val x, dy, d, dx;
  MaxPool pool;

  Pooled(const Shape& shape, const MaxPoolAttrs& attrs, DType type, bool rectified, bool bits) {
    x = b.input("x", {shape, type});
    Val y = rectified ? relu(x) : x;
    Val asked = bits ? to_bits(y, 0) : y;
    pool = max_pool(y, attrs);
    dy = b.input("dy", pool.y.spec());
    b.output("y", pool.y);
    Builder::Within phase(b, Phase::backward);
    d = b.emit1(max_pool_grad_op, {dy, pool.map}, for_image(attrs, shape[1], shape[2]));
    dx = pass_inside(d, asked, 0, kInfinite);
    b.output("dx", dx);
  }
};

TEST(FusePool, ReluHasNothingLeftToDo) {
  const std::vector<MaxPoolAttrs> windows = {max_pool_attrs(2, 2), max_pool_attrs(3, 2),
                                             max_pool_attrs(3, 2, 1), max_pool_attrs(3, 1, 1),
                                             MaxPoolAttrs{5, 3, 2, 1, 4, 0, 1, 2}};
  for (const Shape& shape : {Shape{2, 9, 7, 3}, Shape{1, 8, 11, 33}}) {
    for (const MaxPoolAttrs& attrs : windows) {
      for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
        for (int form = 0; form < 4; ++form) {
          Pooled c(shape, attrs, type, form & 1, form & 2);
          const Program& p = c.b.program();
          const Program out = fuse_epilogues(p);
          verify(out);
          EXPECT_EQ(ops_in(out),
                    form & 1 ? "relu max_pool max_pool_grad" : "max_pool max_pool_grad");
          expect_same_bits(p, out);
          EXPECT_EQ(ops_in(fuse_recompute(p)), ops_in(p)) << "not where clones are looked for";
          ASSERT_FALSE(testing::Test::HasFailure())
              << to_string(shape) << " " << Attrs(attrs).print() << " " << to_string(type) << " "
              << form << "\n"
              << print(out);
        }
      }
    }
  }
}

TEST(FusePool, OnlyReluBehindASmallPoolOfItsResult) {
  const Shape shape{1, 8, 8, 2};
  auto left = [&](auto change, const MaxPoolAttrs& attrs = max_pool_attrs(2, 2)) {
    Pooled c(shape, attrs, DType::f32, true, false);
    change(c);
    return count_of(fuse_epilogues(c.b.program()), "pass_inside");
  };
  auto mask_again = [&](Pooled& c, Val by, float hi = kInfinite) {
    c.b.output("again", pass_inside(c.d, by, 0, hi));
  };
  EXPECT_EQ(left([](Pooled&) {}), 0);
  EXPECT_EQ(left([](Pooled&) {}, max_pool_attrs(4, 2)), 1) << "no code for nowhere";
  EXPECT_EQ(left([](Pooled& c) { c.b.output("d", c.d); }), 1) << "unmasked";
  EXPECT_EQ(left([](Pooled& c) { c.b.output("map", c.pool.map); }), 1);
  EXPECT_EQ(left([&](Pooled& c) { mask_again(c, c.x); }), 2);
  EXPECT_EQ(left([&](Pooled& c) {
              c.b.output("unmasked too", c.b.emit1(max_pool_grad_op, {c.dy, c.pool.map},
                                                   for_image(max_pool_attrs(2, 2), 8, 8)));
            }),
            1);
  // The pool's result may have other readers, and so may relu's.
  EXPECT_EQ(left([](Pooled& c) { c.b.output("twice", scale(c.pool.y, 2)); }), 0);

  for (const float hi : {6.0f, kInfinite}) {
    for (const bool other : {false, true}) {
      Builder b;
      Val x = b.input("x", {shape}), z = b.input("z", {shape});
      const MaxPool pool = max_pool(x, max_pool_attrs(2, 2));
      Builder::Within phase(b, Phase::backward);
      Val d = b.emit1(max_pool_grad_op, {pool.y, pool.map}, for_image(max_pool_attrs(2, 2), 8, 8));
      b.output("dx", pass_inside(d, other ? z : x, 0, hi));
      EXPECT_EQ(count_of(fuse_epilogues(b.program()), "pass_inside"), other || hi == 6 ? 1 : 0);
    }
  }
}

// An update between the pool and its gradient moves neither.
TEST(FusePool, ThePoolStaysWhereItIs) {
  const Shape shape{1, 8, 8, 2};
  Builder b;
  Val x = b.input("x", {shape});
  const MaxPool pool = max_pool(x, max_pool_attrs(2, 2));
  update(b.state("v", {shape}, Role::weight), x);
  {
    Builder::Within phase(b, Phase::backward);
    Val d = b.emit1(max_pool_grad_op, {pool.y, pool.map}, for_image(max_pool_attrs(2, 2), 8, 8));
    b.output("dx", pass_inside(d, x, 0, kInfinite));
  }
  const Program out = fuse_epilogues(b.program());
  verify(out);
  EXPECT_EQ(ops_in(out), "max_pool update max_pool_grad");
  EXPECT_TRUE(out.node(0).attrs.as<MaxPoolAttrs>().positive);
  EXPECT_EQ(difference_of(b.program(), bits_of(b.program()), bits_of(out)), "");
}

TEST(FusePool, InANetworkUnderAllOptions) {
  int smaller = 0, no_bits = 0;
  for (const MaxPoolAttrs& window : {max_pool_attrs(2, 2), max_pool_attrs(3, 2)}) {
    for (const DType type : {DType::f32, DType::bf16}) {
      const Program step = conv_network(window, type);
      const Rewrite* const pool = &max_pool_relu_rewrite;
      EXPECT_EQ(count_of(fuse_epilogues(step, nullptr, {&pool, 1}), "pass_inside"), 2) << "of four";
      each_pair_of_epilogues(step, [&](const CompileOptions&, const Compiled& apart,
                                       const Compiled& fused, const std::string&) {
        smaller += fused.plan.device().lower_bound < apart.plan.device().lower_bound;
        no_bits += bits_made(fused.program) < bits_made(apart.program);
      });
    }
  }
  EXPECT_GE(smaller, 24);
  EXPECT_GE(no_bits, 12);
}

}  // namespace
}  // namespace pal::test
