// One bit an element: what is encoded and what is not, alone and as a choice of Echo's, and that
// nothing changes but bytes.
#include "memory/passes/bit_stash.h"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/differentiate.h"
#include "core/prepare.h"
#include "core/print.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/norms/batch_norm.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"

namespace pal::test {
namespace {

constexpr double kHeavy = 12;  // below the small products of these programs

constexpr int64_t kRows = 64, kWide = 256;  // products of this size are compute-heavy

// Ends the forward phase with something large, as a vocabulary's scores would be, so that the peak
// lies where all stashes are alive; then the gradients.
Program finished(Builder& b, Val loss, const std::vector<Val>& wrt) {
  loss = add(loss, sum_all(scale(b.input("scores", {{32, kRows, kWide}}), 1)));
  b.output("loss", loss);
  const std::vector<Val> d = differentiate(b, loss, wrt);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  return b.take();
}

// x, weights w0, w1, .. (kWide, kWide); f makes a (kRows, kWide) of them; the loss weighs it.
Program step_of(int weights, const std::function<Val(Val x, const std::vector<Val>& w)>& f) {
  Builder b;
  Val x = b.input("x", {{kRows, kWide}}), c = b.input("c", {{kRows, kWide}});
  std::vector<Val> w;
  for (int i = 0; i < weights; ++i) {
    w.push_back(b.state("w" + std::to_string(i), {{kWide, kWide}}, Role::weight));
  }
  return finished(b, sum_all(mul(f(x, w), c)), w);
}

Program stashed(const Program& p, int expected) {
  int count = -1;
  const Program out = stash_bits(p, &count);
  verify(out);
  EXPECT_EQ(count, expected) << print(out);
  EXPECT_EQ(count_of(out, "to_bits"), expected);
  EXPECT_EQ(difference_of(p, bits_of(p), bits_of(out)), "");
  if (expected == 0) {
    EXPECT_EQ(print(out), print(p));
  }
  return out;
}

Val relu6(Val x) { return clip(x, 0, 6); }

TEST(BitStash, WhatGradientsAskAPredicateOf) {
  for (Val (*f)(Val) : {+[](Val x) { return relu(x); }, +[](Val x) { return relu6(x); },
                        +[](Val x) { return clip(x, -1, 1); }}) {
    const Program p = step_of(1, [&](Val x, auto& w) { return scale(f(matmul(x, w[0])), 2); });
    const Program out = stashed(p, 1);
    EXPECT_LT(peak_bytes(out), peak_bytes(p));
    for (const Node& node : out.nodes) {
      if (node.phase != Phase::encode) continue;
      EXPECT_EQ(out.value(node.out[0]).role, Role::encoded);
      EXPECT_EQ(out.value(node.out[0]).spec.bytes() * 32, out.value(node.in[0]).spec.bytes());
    }
  }
}

TEST(BitStash, NotWhatAGradientReads) {
  stashed(step_of(2, [](Val x, auto& w) { return matmul(relu(matmul(x, w[0])), w[1]); }), 0);
  stashed(step_of(1, [](Val x, auto& w) { return tanh(matmul(x, w[0])); }), 0);
  // Through a view of it.
  stashed(step_of(2,
                  [](Val x, auto& w) {
                    Val y = relu(matmul(x, w[0]));
                    return add(y, matmul(reshape(y, {kRows, kWide}), w[1]));
                  }),
          0);
}

TEST(BitStash, NotDifferentQuestions) {
  Builder b;
  Val w = b.state("w", {{kRows, kWide}}, Role::weight), c = b.input("c", {{kRows, kWide}});
  Val y = relu(scale(w, 1));
  b.output("loss", sum_all(y));
  Builder::Within phase(b, Phase::backward);
  b.output("d0", pass_inside(c, y, 0, 1));
  Program p = b.program();
  stashed(p, 1);
  b.output("d1", pass_inside(c, y, 0, 2));
  stashed(b.program(), 0);
}

TEST(BitStash, NotWhatTheCallerReads) {
  Program p = step_of(1, [](Val x, auto& w) { return scale(relu(matmul(x, w[0])), 2); });
  for (const Node& node : p.nodes) {
    if (std::string(node.op->name) == "relu") p.outputs.push_back({"y", node.out[0]});
  }
  stashed(p, 0);
}

TEST(BitStash, DropoutMasks) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val w = b.state("w", {{kRows, kWide}}, Role::weight), c = b.input("c", {{kRows, kWide}});
  Val y = dropout_apply(scale(w, 2), dropout_mask(scalars, w.spec(), 0.3f), 0.3f);
  const Program p = finished(b, sum_all(mul(y, c)), {w});
  EXPECT_LT(peak_bytes(stashed(p, 1)), peak_bytes(p));
}

// As compiling does it, on a processor's own terms: the footprint is that of the compiled step.
std::string echoed(const Program& p, std::string* note = nullptr, double exchange = 64) {
  auto footprint = [](const Program& q) { return peak_bytes(q); };
  const Program out = recompute(p, Recompute::echo, footprint, note,
                                {.heavy = kHeavy, .exchange = exchange, .overhead = 1e9});
  verify(out);
  EXPECT_LE(peak_bytes(out), peak_bytes(p));
  EXPECT_EQ(difference_of(p, bits_of(p), bits_of(out)), "");
  return ops_in(out);
}

int times(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(EchoBits, AReluThatIsReadByItsGradientAlone) {
  std::string note;
  const std::string last =
      echoed(step_of(1, [](Val x, auto& w) { return scale(relu(matmul(x, w[0])), 0.5f); }), &note);
  EXPECT_EQ(last.substr(0, 21), "matmul relu +to_bits ") << last;
  EXPECT_EQ(times(last, "*"), 0) << last;
  EXPECT_EQ(note.find("0 nodes recomputed, 1 values kept as bits"), 0u) << note;
}

TEST(EchoBits, NotWhereTheValueIsNeededAnyway) {
  const std::string ops = echoed(step_of(3, [](Val x, auto& w) {
    Val y = x;
    for (Val wi : w) y = relu(matmul(y, wi));
    return y;
  }));
  EXPECT_EQ(times(ops, "+to_bits"), 1) << ops;  // the last alone, which no product reads
}

TEST(EchoBits, RecomputingFromWhatIsThereAnywayWins) {
  // The product's result is read by the gradient of its square; the ReLU is made again from it.
  const std::string ops = echoed(step_of(2, [](Val x, auto& w) {
    Val h = matmul(x, w[0]);
    Val y = scale(relu(h), 0.5f);
    return add(matmul(y, w[1]), mul(h, h));
  }));
  EXPECT_EQ(times(ops, "+to_bits"), 0) << ops;
  EXPECT_GE(times(ops, "*relu"), 1) << ops;
}

TEST(EchoBits, OffKeepsThemWhole) {
  const Program p = step_of(2, [](Val x, auto& w) {
    return scale(relu(matmul(scale(relu(matmul(x, w[0])), 2), w[1])), 2);
  });
  auto footprint = [](const Program& q) { return peak_bytes(q); };
  auto encoders = [&](Recompute method, bool bits) {
    const RecomputeOptions options{.heavy = kHeavy, .overhead = 1e9, .bits = bits};
    return times(ops_in(recompute(p, method, footprint, nullptr, options)), "+");
  };
  EXPECT_EQ(encoders(Recompute::echo, true), 1);
  EXPECT_EQ(encoders(Recompute::echo, false), 0);
  EXPECT_EQ(encoders(Recompute::mirror, true), 0);
}

// Two blocks of convolution, batch norm and ReLU, then pooling.
Program convolutional(bool norm) {
  Builder b;
  Val y = b.input("x", {{4, 16, 16, 32}});
  std::vector<Val> w;
  auto weight = [&](const std::string& name, Shape shape) {
    w.push_back(b.state(name, {shape}, Role::weight));
    return w.back();
  };
  for (const std::string n : {"0", "1"}) {
    y = conv2d(y, weight("w" + n, {32, 3, 3, 32}), conv2d_attrs(1, 1));
    if (norm) y = batch_norm(y, weight("gamma" + n, {32}), weight("beta" + n, {32})).y;
    y = relu(y);
  }
  y = max_pool(y, max_pool_attrs(2, 2)).y;
  return finished(b, sum_all(mul(y, b.input("c", {{4, 8, 8, 32}}))), w);
}

TEST(EchoBits, ReluBeforePoolingIsBits) {  // Gist, figure 4b
  const std::string ops = echoed(convolutional(false));
  EXPECT_EQ(times(ops, "relu +to_bits max_pool"), 1) << ops;
  EXPECT_EQ(times(ops, "+to_bits"), 1) << ops;  // the first ReLU's output is the product's operand
}

TEST(EchoBits, BatchNormAndReluAreRecomputed) {
  const std::string ops = echoed(convolutional(true));
  // The gradient of batch norm needs its input, from which its output can be made again.
  EXPECT_GE(times(ops, "*batch_norm"), 1) << ops;
  EXPECT_GE(times(ops, "*relu"), 1) << ops;
}

TEST(EchoBits, CompiledStepsPlanAndCheck) {
  const Program p = convolutional(false);
  KernelCache cache{Device{}};
  const StateLayout layout(p);
  const int64_t without = compile(p, cache, layout).plan.device().bytes;
  EXPECT_LE(compile(p, cache, layout, {.recompute = Recompute::echo}).plan.device().bytes, without);
  EXPECT_EQ(count_of(compile(stash_bits(p), cache, layout).program, "to_bits"), 1);
}

}  // namespace
}  // namespace pal::test
