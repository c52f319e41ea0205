// Parts of the batch: the same step but for the order of sums, in fewer bytes; what cannot be split
// stays, and what lies in a run's way moves only where it may.
#include "memory/passes/batch_parts.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "core/scalars.h"
#include "core/text.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/front/pool.h"
#include "ops/convolution/avg_pool.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/global_avg_pool.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/self_gated.h"
#include "ops/losses/cross_entropy.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/lrn.h"
#include "ops/products/matmul.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/passes/in_parts.h"
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
  const InParts made(b.take(), 3, 1e-5);
  EXPECT_EQ(made.done.parts, 3);
  EXPECT_EQ(made.done.runs, 2);
  for (const Value& value : made.split.values) {
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
