// Parts of the batch: the same step but for the order of sums, in fewer bytes; what cannot be split
// stays, and what lies in a run's way moves only where it may.
#include "memory/passes/batch_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/error.h"
#include "core/scalars.h"
#include "core/text.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/front/pool.h"
#include "memory/storages/storages.h"
#include "ops/convolution/avg_pool.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/global_avg_pool.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale_channels.h"
#include "ops/elementwise/self_gated.h"
#include "ops/exchange/exchange.h"
#include "ops/losses/cross_entropy.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/lrn.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"
#include "tests/memory/compiled_bits.h"
#include "tests/support/random_network.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

// A classifier whose first layers have the largest maps, with weights that are updated.
class Classifier {
 public:
  explicit Classifier(int64_t batch)
      : scalars_(b_.input("scalars", scalars_spec())),
        x_(b_.input("x", {{batch, 16, 16, 3}})),
        labels_(b_.input("labels", {{batch}, DType::i32})) {}

  Val x() const { return x_; }
  Val conv(Val x, int64_t to, int64_t stride = 1) {
    return conv2d(x, weight({to, 3, 3, x.shape()[3]}), conv2d_attrs(stride, 1), weight({to}));
  }
  Val norm(Val x) {
    return batch_norm(x, weight({x.shape().back()}), weight({x.shape().back()})).y;
  }
  Val weight(const Shape& shape) {
    w_.push_back(b_.state("w" + std::to_string(w_.size()), {shape}, Role::weight));
    return w_.back();
  }
  Program take(Val y) {
    const Val rows = global_avg_pool(y);
    const Val logits = matmul(rows, weight({5, rows.shape()[1]}), false, true);
    const Val loss = cross_entropy(logits, labels_, scalars_).loss;
    b_.output("loss", loss);
    const std::vector<Val> d = differentiate(b_, loss, w_);
    for (size_t i = 0; i < d.size(); ++i) {
      if (d[i]) b_.output("d" + std::to_string(i), d[i]);  // of what the loss depends on
    }
    return b_.take();
  }

 private:
  Builder b_;
  Val scalars_, x_, labels_;
  std::vector<Val> w_;
};

Program plain_network(int64_t batch = 8) {
  Classifier net(batch);
  Val y = max_pool(relu(net.conv(relu(net.conv(net.x(), 16)), 16)), max_pool_attrs(2, 2)).y;
  y = max_pool(relu(net.conv(relu(net.conv(y, 8)), 8)), max_pool_attrs(2, 2)).y;
  return net.take(relu(net.conv(y, 8)));
}

// Of layers at random, some of which look at the batch as a whole.
Program random_classifier(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto any = [&](int n) { return int(rng() % uint64_t(n)); };
  const int64_t batches[] = {1, 2, 3, 4, 6, 7, 8, 12};
  Classifier net(batches[any(8)]);
  std::vector<Val> maps{relu(net.conv(net.x(), 8))};
  for (int layers = 3 + any(8); layers > 0; --layers) {
    const Val x = maps[size_t(any(2) ? int(maps.size()) - 1 : any(int(maps.size())))];
    const bool small = x.shape()[1] < 4;
    const int kind = any(10);
    Val y = x;
    if (kind < 3) y = relu(net.conv(x, 4 + any(12), small ? 1 : 1 + any(2)));
    if (kind == 3) y = clip(net.conv(x, 4 + any(8)), 0, 1);
    if (kind == 4 && !small) y = max_pool(x, max_pool_attrs(2, 2)).y;
    if (kind == 5 && !small) y = avg_pool(x, avg_pool_attrs(2, 2));
    if (kind == 6) y = lrn(x, {.size = 3, .alpha = 0.5f, .beta = 0.75f, .k = 1});
    if (kind == 7) y = relu(net.norm(x));
    if (kind == 8) y = concatenate({x, tanh(x)});
    if (kind == 9) y = add(x, sigmoid(x));
    maps.push_back(y);
  }
  return net.take(maps.back());
}

// The largest difference of an output beside its largest number; infinite where one is no number.
double largest_difference(const Program& program, const Bits& a, const Bits& b) {
  double most = 0;
  for (const NamedValue& output : program.outputs) {
    const TensorSpec& spec = program.value(output.value).spec;
    const std::vector<float> x = decode(spec, a.at(output.name)),
                             y = decode(spec, b.at(output.name));
    double largest = 1e-6, difference = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return INFINITY;
      largest = std::max(largest, double(std::abs(x[i])));
      difference = std::max(difference, double(std::abs(x[i] - y[i])));
    }
    most = std::max(most, difference / largest);
  }
  return most;
}

// Of the smallest plan that a front has.
int64_t least_of(const Program& p) {
  KernelCache cache(cpu_device(1));
  return make_front(p, cache, StateLayout(p), {}).points.front().bytes;
}

TEST(BatchParts, TheFirstLayersTakeAPartOfTheBytes) {
  const Program whole = plain_network();
  const Bits expected = bits_of(whole);
  const int64_t before = least_of(whole);
  for (const int64_t parts : {2, 4, 8}) {
    BatchParts done;
    const Program split = in_batch_parts(whole, parts, &done);
    verify(split);
    EXPECT_EQ(done.parts, parts);
    EXPECT_EQ(done.examples, 8);
    EXPECT_EQ(done.runs, 2) << "forwards and backwards";
    EXPECT_LT(largest_difference(whole, expected, bits_of(split)), 1e-5) << parts;
    if (parts > 2) {
      EXPECT_LT(least_of(split), before * (parts == 4 ? 8 : 6) / 10) << parts;
    }
  }
}

TEST(BatchParts, AsManyAsDivideTheBatch) {
  const auto parts_of = [](int64_t batch, int64_t wanted) {
    BatchParts done;
    const Program whole = plain_network(batch);
    const Program split = in_batch_parts(whole, wanted, &done);
    EXPECT_EQ(same_step(whole, split), done.parts == 1) << batch << " " << wanted;
    EXPECT_EQ(done.nodes == 0, done.parts == 1);
    return done.parts;
  };
  EXPECT_EQ(parts_of(12, 5), 4);
  EXPECT_EQ(parts_of(12, 6), 6);
  EXPECT_EQ(parts_of(12, 100), 12);
  EXPECT_EQ(parts_of(7, 4), 1);
  EXPECT_EQ(parts_of(7, 7), 7);
  EXPECT_EQ(parts_of(1, 4), 1);
  EXPECT_EQ(parts_of(8, 1), 1);
}

TEST(BatchParts, SaysWhatWasDone) {
  BatchParts done;
  in_batch_parts(plain_network(), 4, &done);
  EXPECT_EQ(describe(done).find("4 parts of 2 rows: "), 0u) << describe(done);
  EXPECT_NE(describe(done).find(" nodes in 2 runs; what can be split touches up to "),
            std::string::npos)
      << describe(done);
  in_batch_parts(plain_network(7), 4, &done);
  EXPECT_EQ(describe(done), "none: 7 rows have no divisor from 2 to 4");
  in_batch_parts(random_program(3), 4, &done);
  EXPECT_EQ(describe(done), "none: no map of two rows or more is made and read by rows alone");
}

TEST(BatchParts, ANodeThatLooksAtTheWholeBoundsWhatIsSplit) {
  // What batch norm reads and makes is as large as what could be split.
  Classifier net(8);
  Val y = relu(net.norm(net.conv(relu(net.conv(net.x(), 16)), 16)));
  const Program whole = net.take(max_pool(y, max_pool_attrs(2, 2)).y);
  BatchParts done;
  const Program split = in_batch_parts(whole, 4, &done);
  EXPECT_LE(done.most, done.most_else);
  EXPECT_EQ(describe(done), "none: what can be split touches up to " + format_bytes(done.most) +
                                " of maps, other nodes up to " + format_bytes(done.most_else));
  EXPECT_TRUE(same_step(whole, split));
}

// y is read in two runs, with a sum over the batch between them.
TEST(BatchParts, ASumEndsItsRunAndIsAddedOntoWhatThereWas) {
  Builder b;
  Val x = b.input("x", {{8, 64}}), bias = b.input("bias", {{64}}),
      before = b.input("before", {{64}});
  Val y = relu(add_bias(x, bias));
  Val sum = sum_rows(y, before);
  b.output("sum", sum);
  b.output("last", sum_rows(add_bias(y, sum)));  // of all parts
  const Program whole = b.take();
  BatchParts done;
  const Program split = in_batch_parts(whole, 4, &done);
  verify(split);
  EXPECT_EQ(done.runs, 2);
  EXPECT_EQ(done.nodes, 5);
  EXPECT_LT(largest_difference(whole, bits_of(whole), bits_of(split)), 1e-6);
  int sums = 0, onto = 0, slices = 0;
  for (const Node& node : split.nodes) {
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
  const Program whole = b.take();
  BatchParts done;
  const Program split = in_batch_parts(whole, 8, &done);
  verify(split);
  EXPECT_EQ(done.parts, 8);
  EXPECT_EQ(done.runs, 2);
  EXPECT_LT(largest_difference(whole, bits_of(whole), bits_of(split)), 1e-6);
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
  BatchParts done;
  const Program split = in_batch_parts(whole, 4, &done);
  verify(split);
  EXPECT_EQ(done.parts, 4);
  EXPECT_LT(largest_difference(whole, bits_of(whole), bits_of(split)), 1e-6);
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
  const Program whole = b.take();
  BatchParts done;
  const Program split = in_batch_parts(whole, 4, &done);
  verify(split);
  EXPECT_LT(largest_difference(whole, bits_of(whole), bits_of(split)), 1e-6);
  return done;
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

TEST(BatchParts, PartsAreToldApartAsTimeStepsAre) {
  const Program split = in_batch_parts(plain_network(), 4);
  std::vector<int> of_step(4);
  for (const Node& node : split.nodes) {
    if (node.op == &conv2d_op && node.step != kNone) ++of_step.at(size_t(node.step));
  }
  EXPECT_GT(of_step[0], 0);
  EXPECT_EQ(of_step, std::vector<int>(4, of_step[0]));
}

TEST(BatchParts, NodesThatWaitAreRefused) {
  Program step = plain_network();
  step.nodes.back().waits = {NodeId(0)};
  EXPECT_THROW(in_batch_parts(step, 4), ProgramError);
  EXPECT_NO_THROW(in_batch_parts(step, 1));
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

// A Transformer's hidden layer is four times as wide as what goes into it.
TEST(BatchParts, AHiddenLayer) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val x = b.input("x", {{6, 4, 8}}), labels = b.input("labels", {{24}, DType::i32});
  Val w1 = b.state("w1", {{8, 32}}, Role::weight), b1 = b.state("b1", {{32}}, Role::weight);
  Val w2 = b.state("w2", {{32, 8}}, Role::weight), b2 = b.state("b2", {{8}}, Role::weight);
  Val y = add(x, linear(gelu(linear(x, w1, b1)), w2, b2));
  const Val loss = cross_entropy(reshape(y, {24, 8}), labels, scalars).loss;
  b.output("loss", loss);
  const std::vector<Val> weights{w1, b1, w2, b2};
  const auto d = differentiate(b, loss, weights);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  const Program whole = b.take();
  BatchParts done;
  const Program split = in_batch_parts(whole, 3, &done);
  verify(split);
  EXPECT_EQ(done.parts, 3);
  EXPECT_EQ(done.runs, 2);
  EXPECT_LT(largest_difference(whole, bits_of(whole), bits_of(split)), 1e-5);
  for (const Value& value : split.values) {
    if (value.role != Role::feature_map && value.role != Role::gradient_map) continue;
    if (value.producer == kNone) continue;  // nobody makes it any more
    EXPECT_LE(value.spec.numel(), 6 * 4 * 32 / 3);
  }
}

TEST(BatchParts, RandomNetworksComputeTheSame) {
  int split_some = 0;
  for (uint64_t seed = 0; seed < networks_asked(40); ++seed) {
    const Program whole = random_classifier(seed);
    const Bits expected = bits_of(whole);
    for (const int64_t parts : {2, 4, 16}) {
      BatchParts done;
      const Program split = in_batch_parts(whole, parts, &done);
      verify(split);
      if (done.nodes == 0) continue;
      ++split_some;
      const Bits in_parts = bits_of(split);
      // Batch norm may divide by a deviation near 0, which makes the last bits of x large.
      ASSERT_LT(largest_difference(whole, expected, in_parts), 1e-3) << seed << " " << parts;
      // A plan of it is the same step to the bit, and within its bytes.
      std::mt19937_64 rng(seed);
      const Recompute methods[] = {Recompute::none, Recompute::mirror, Recompute::sqrt,
                                   Recompute::echo};
      CompileOptions options{.inplace = rng() % 4 != 0,
                             .windows = rng() % 4 != 0,
                             .recompute = methods[rng() % 4],
                             .schedule = rng() % 2 ? Schedule::lifetime : Schedule::program};
      if (rng() % 2) options.encode = kBits;
      KernelCache cache(cpu_device(1));
      const Compiled compiled = compile(split, cache, StateLayout(split), options);
      const Bits twice = bits_of(compiled);
      const Compiled plain =
          compile(split, cache, StateLayout(split),
                  {.inplace = false, .windows = false, .schedule = Schedule::program});
      ASSERT_EQ(difference_of(split, bits_of(plain), twice), "") << seed << " " << parts;
    }
  }
  EXPECT_GT(split_some, int(networks_asked(40)) / 2);
}

}  // namespace
}  // namespace pal::test
