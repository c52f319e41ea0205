// Parts of the batch, node by node: what is read and made by rows, how sums are put together, and
// what stays whole or keeps its place.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "autograd/optimizer.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/passes/batch_parts.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale_channels.h"
#include "ops/exchange/exchange.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"
#include "tests/memory/passes/in_parts.h"

namespace pal::test {
namespace {

// y is read in two runs, with a sum over the batch between them.
TEST(BatchParts, ASumEndsItsRunAndIsAddedOntoWhatThereWas) {
  Builder b;
  Val x = b.input("x", {{8, 64}}), bias = b.input("bias", {{64}}),
      before = b.input("before", {{64}});
  Val y = relu(add_bias(x, bias));
  Val sum = sum_rows(y, before);
  b.output("sum", sum);
  b.output("last", sum_rows(add_bias(y, sum)));  // of all parts
  const InParts made(b.take(), 4);
  EXPECT_EQ(made.done.runs, 2);
  EXPECT_EQ(made.done.nodes, 5);
  int sums = 0, onto = 0, slices = 0;
  for (const Node& node : made.split.nodes) {
    sums += node.op == &sum_leading_op;
    onto += node.op == &sum_leading_op && node.in.size() > 1 && node.in[1] != kNone;
    slices += node.op == &slice_op;
  }
  EXPECT_EQ(sums, 8);
  EXPECT_EQ(onto, 6) << "all but the first of each";
  EXPECT_EQ(slices, 4) << "of x: y stays in parts";
}

// As of micro-batches that ranks add up: the sum of the parts, then the one onto the other.
TEST(BatchParts, WhatASumIsAddedOntoComesLast) {
  std::vector<float> sums[2], before;
  for (const bool onto : {false, true}) {
    Builder b;
    Val y = relu(b.input("x", {{8, 64}})), was = b.input("was", {{64}});
    b.output("sum", sum_rows(y, onto ? was : Val{}));
    b.output("was", tanh(was));
    const Program split = in_batch_parts(b.take(), 4);
    const Bits bits = bits_of(split);
    sums[onto] = decode({{64}}, bits.at("sum"));
    before = made_up("was", {{64}});
  }
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(sums[1][i], before[i] + sums[0][i]) << i;
}

// s has as many rows as the sums that lead to it.
TEST(BatchParts, ASumIsReadByRows) {
  Builder b;
  Val x = b.input("x", {{8, 8, 64}});
  Val y = relu(x);
  Val s = sum_leading(y, 1);  // (8, 64)
  b.output("last", sum_rows(scale_channels(y, s)));
  const InParts made(b.take(), 8);
  EXPECT_EQ(made.done.parts, 8);
  EXPECT_EQ(made.done.runs, 2);
}

TEST(BatchParts, SumsInSixteenBitsStayWhole) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const DType sum : {DType::f32, DType::bf16}) {
      Builder b;
      Val y = relu(b.input("x", {{8, 64}, type}));
      b.output("sum", b.emit1(sum_leading_op, {y, {}}, SumLeadingAttrs{1, sum}));
      BatchParts done;
      in_batch_parts(b.take(), 4, &done);
      EXPECT_EQ(done.nodes, sum == DType::f32 ? 2 : 0);
    }
  }
}

TEST(BatchParts, EmptyMapsAndUnreadResults) {
  Builder b;
  b.output("none", relu(b.input("x", {{0, 4}})));
  Val y = relu(b.input("y", {{8, 6, 6, 4}}));
  const MaxPool pool = max_pool(y, max_pool_attrs(2, 2));
  b.output("sum", sum_rows(pool.y));
  Program whole = b.take();
  for (Node& node : whole.nodes) {
    if (node.op == &max_pool_op) node.out[1] = kNone;
  }
  EXPECT_EQ(InParts(std::move(whole), 4).done.parts, 4);
}

// An exchange waits for the one before it; an update may overwrite what the run reads.
TEST(BatchParts, UpdatesAndExchangesKeepTheirPlaces) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val x = b.input("x", {{8, 64}}), other = b.input("other", {{64}});
  Val w = b.state("w", {{64}}, Role::weight);
  Val y = relu(add_bias(x, w));
  const Val sums = all_reduce({other}, 2)[0];
  const std::vector<Val> weights{w}, gradients{sums};
  Val z = sigmoid(y);
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, weights, gradients, scalars, {});
  const Val more = all_reduce({sum_rows(tanh(z))}, 2)[0];
  b.output("more", more);
  // What ranks exchange may be larger than any map.
  b.output("large", all_reduce({b.input("gradient", {{8192}})}, 2)[0]);
  const Program whole = b.take();
  BatchParts done;
  const Program split = in_batch_parts(whole, 4, &done);
  verify(split);
  EXPECT_EQ(done.runs, 1);
  std::vector<std::string> places;
  for (const Node& node : split.nodes) {
    if (node.op->collective || node.op->writes_state || node.op == &relu_op) {
      places.push_back(node.op->name);
    }
  }
  EXPECT_EQ(places, (std::vector<std::string>{"relu", "relu", "relu", "relu", "all_reduce", "sgd",
                                              "all_reduce", "all_reduce"}));
}

// y, and what f makes of it, in four parts.
BatchParts four_parts(const Shape& shape, const std::function<void(Builder&, Val y)>& f) {
  Builder b;
  f(b, relu(b.input("x", {shape})));
  return InParts(b.take(), 4).done;
}

TEST(BatchParts, AMapThatIsThereAsAWholeIsNotSplit) {
  EXPECT_EQ(four_parts({8, 64}, [](Builder& b, Val y) { b.output("sum", sum_rows(y)); }).nodes, 2);
  EXPECT_EQ(four_parts({8, 64}, [](Builder& b, Val y) { b.output("y", y); }).nodes, 0);
}

TEST(BatchParts, RowsBeginOnBytes) {
  const auto masked = [](Builder& b, Val y) {
    Val bits = to_bits(y, 0.25f);
    b.output("sum", sum_rows(b.emit1(pass_inside_op, {y, bits}, IntervalAttrs{0.25f})));
  };
  EXPECT_EQ(four_parts({8, 16}, masked).parts, 4);
  EXPECT_EQ(four_parts({8, 13}, masked).parts, 1);
}

// The other operand is a row for every leading index, or as many rows as there are.
TEST(BatchParts, OperandsThatARowDoesNotFitStayWhole) {
  for (const Shape& other : {Shape{64}, Shape{8, 64}}) {
    const auto sum = [&](Builder& b, Val y) {
      b.output("sum", sum_rows(add_broadcast(y, b.input("other", {other}))));
    };
    EXPECT_EQ(four_parts({8, 64}, sum).parts, other.rank() == 1 ? 4 : 1);
  }
}

// A quarter of the largest map is no larger than a part of it.
TEST(BatchParts, MapsOfAPartsSizeStayWhole) {
  const auto done = four_parts({8, 4, 4, 4}, [](Builder& b, Val y) {
    b.output("sum", sum_rows(relu(max_pool(y, max_pool_attrs(2, 2)).y)));
  });
  EXPECT_EQ(done.nodes, 2) << "relu and the pool";
}

// Most is touched where two maps are added; the largest map has other rows.
TEST(BatchParts, RowsAreThoseOfTheNodeThatTouchesMost) {
  const auto done = four_parts({8, 64}, [](Builder& b, Val y) {
    b.output("sum", sum_rows(add(y, tanh(y))));
    b.output("other", sum_rows(relu(b.input("large", {{16, 64}}))));
  });
  EXPECT_EQ(done.examples, 8);
  EXPECT_EQ(done.parts, 4);
}

TEST(BatchParts, WhatIsInTheWayMovesWhereItMay) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val x = b.input("x", {{8, 64}}), other = b.input("other", {{2, 3}});
  Val w = b.state("w", {{64}}, Role::weight);
  Val y = relu(x);
  b.output("before", tanh(other));  // needs nothing of the run
  Val columns = slice_columns(y, 0, 8);
  b.output("row", slice(columns, 0, 1));  // needs it whole
  Val next = sigmoid(y);
  Val sum = sum_rows(next);
  const std::vector<Val> weights{w}, gradients{sum};
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, weights, gradients, scalars, {});
  b.output("last", sum_rows(add_bias(next, sum)));
  const Program whole = b.take();
  BatchParts done;
  const Program split = in_batch_parts(whole, 2, &done);
  verify(split);
  EXPECT_EQ(done.runs, 2);
  std::string order;
  for (const Node& node : split.nodes) order += std::string(node.op->name) + " ";
  EXPECT_EQ(order.substr(0, 5), "tanh ") << order;
  const Bits a = bits_of(whole), c = bits_of(split);
  EXPECT_EQ(a.at("before"), c.at("before"));
  EXPECT_EQ(a.at("row"), c.at("row"));
  EXPECT_LT(largest_difference(whole, a, c), 1e-6);
}

// With a bias in each part, it would count as often as there are parts.
TEST(BatchParts, ASumThatReadsMoreThanRowsStaysWhole) {
  for (const bool biased : {false, true}) {
    Builder b;
    Val x = b.input("x", {{8, 64}}), bias = b.input("bias", {{64}});
    Val y = relu(x);
    Val product = b.emit1(matmul_op, {y, y, {}, biased ? bias : Val{}}, MatmulAttrs{.ta = true});
    b.output("last", sum_rows(product));
    const Program whole = b.take();
    BatchParts done;
    in_batch_parts(whole, 4, &done);
    EXPECT_EQ(done.examples, 8 * !biased);
  }
}

}  // namespace
}  // namespace pal::test
