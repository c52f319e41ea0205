// Rounded codes in place of feature maps: no predicate and no forward value changes.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/passes/encode.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/encodings/dpr.h"
#include "ops/norms/batch_norm.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "tests/memory/bits.h"
#include "tests/memory/passes/encode_toys.h"

namespace pal::test {
namespace {

const Encodings kFp8{.dpr = Dpr::fp8};

TEST(EncodeDpr, RoundsWhatTheBackwardPassReadsAndNothingElse) {
  const Program p = two_products([](Val x) { return tanh(x); });
  const Program out = encode(p, choose_forms(p, kFp8));
  verify(out);
  EXPECT_EQ(count_of(out, "dpr_encode"), 1) << print(out);
  EXPECT_EQ(count_of(out, "dpr_decode"), 1) << "two readers near each other share it";
  const Bits exact = bits_of(p), rounded = bits_of(out);
  EXPECT_EQ(exact.at("loss"), rounded.at("loss"));
  EXPECT_NE(exact.at("d0"), rounded.at("d0"));
  EXPECT_NE(exact.at("d1"), rounded.at("d1"));

  // The same by hand: the second product's weight gradient, of the decoded values.
  Builder b;
  Val x = b.input("x", {{kRows, kWide}}), c = b.input("c", {{kRows, kWide}});
  Val w0 = b.state("w0", {{kWide, kWide}}, Role::weight);
  Val y = dpr_decode(dpr_encode(tanh(scale(matmul(x, w0), 1)), Dpr::fp8));
  b.output("d1", matmul(y, c, true, false));
  EXPECT_EQ(bits_of(b.take()).at("d1"), rounded.at("d1"));
}

TEST(EncodeDpr, APredicateIsAskedOfExactValues) {
  // Values so small that they are rounded to zero: the gradient must pass nevertheless.
  const Program p = two_products([](Val x) { return relu(x); }, 1e-6f);
  const Program out = encode(p, choose_forms(p, kFp8));
  verify(out);
  EXPECT_EQ(count_of(out, "to_bits"), 1) << print(out);
  EXPECT_EQ(count_of(out, "dpr_encode"), 1) << print(out);
  const Bits exact = bits_of(p), rounded = bits_of(out);
  EXPECT_EQ(exact.at("d0"), rounded.at("d0")) << "which asks the predicate";
  const auto& d1 = rounded.at("d1");
  EXPECT_TRUE(std::all_of(d1.begin(), d1.end(), [](std::byte b) {
    return b == std::byte{0} || b == std::byte{0x80};
  })) << "which reads the values";
}

TEST(EncodeDpr, ADecodedCopyIsDeadBeforeTheGradientIsBorn) {
  const Program p = convolutional(false);
  const Program out = encode(p, choose_forms(p, {.binarize = true, .dpr = Dpr::fp16}));
  verify(out);
  NodeId last = kNone;
  for (NodeId n : out.nodes.ids()) {
    if (std::string(out.node(n).op->name) != "dpr_decode") continue;
    last = n;
    EXPECT_EQ(out.node(n + 1).op->name, std::string("conv2d_weight_grad")) << print(out);
    const Readers readers(out);
    EXPECT_EQ(readers[out.node(n).out[0]].back(), n + 1) << print(out);
  }
  EXPECT_NE(last, kNone);
}

TEST(EncodeDpr, StatisticsAndWhatTheCallerReadsStayExact) {
  const Program norm = convolutional(true);
  const Forms forms = choose_forms(norm, kFp8);
  for (ValueId v : forms.ids()) {
    if (norm.value(v).spec.numel() < 1000) {
      EXPECT_TRUE(forms[v].is_dense()) << v;
    }
  }
  EXPECT_GT(count_encoded(forms), 1);
  {  // as many statistics as a quarter of the elements
    Builder b;
    Val gamma = b.state("gamma", {{4096}}, Role::weight),
        beta = b.state("beta", {{4096}}, Role::weight);
    const Val x = tanh(b.input("x", {{4, 4096}}));
    const Program few = finished(b, sum_all(tanh(batch_norm(x, gamma, beta).y)), {gamma, beta});
    const Forms rounded = choose_forms(few, kFp8);
    EXPECT_EQ(count_encoded(rounded), 2) << print(few);
    for (ValueId v : rounded.ids()) {
      EXPECT_TRUE(rounded[v].is_dense() || few.value(v).spec.shape.rank() == 2) << v;
    }
  }
  Program p = two_products([](Val x) { return tanh(x); });
  for (const Node& node : p.nodes) {
    if (std::string(node.op->name) == "tanh") p.outputs.push_back({"y", node.out[0]});
  }
  EXPECT_EQ(count_encoded(choose_forms(p, kFp8)), 0);
}

TEST(EncodeDpr, WhatRunsAgainReadsExactValues) {
  const Program p = convolutional(true);
  auto footprint = [](const Program& q) { return peak_bytes(q); };
  const Program again =
      recompute(p, Recompute::echo, footprint, nullptr, {.heavy = kHeavy, .overhead = 1e9});
  ASSERT_GT(times(ops_in(again), "*"), 0);
  const Program out = encode(again, choose_forms(again, kFp8));
  verify(out);
  for (const Node& node : out.nodes) {
    if (node.phase != Phase::recompute) continue;
    for (ValueId v : present(node.in)) {
      const NodeId maker = out.value(v).producer;
      EXPECT_TRUE(maker == kNone || out.node(maker).phase != Phase::decode) << print(out);
    }
  }
}

TEST(EncodeDpr, FormatsOfLayers) {
  Builder b;
  Val y = b.input("x", {{kRows, kWide}});
  std::vector<Val> w;
  for (const char* layer : {"rnn", "rnn/0", "rnn/0/cell", "rnn0"}) {
    Builder::Within scope(b, layer);
    w.push_back(b.state(std::string(layer) + "/w", {{kWide, kWide}}, Role::weight));
    y = tanh(matmul(y, w.back()));
  }
  const Program p = finished(b, sum_all(y), w);
  auto formats = [&](const Encodings& encodings) {
    std::string text;
    const Forms forms = choose_forms(p, encodings);
    for (ValueId v : forms.ids()) {
      if (forms[v].dpr) text += name_of(*forms[v].dpr) + std::string(" ");
    }
    return text;
  };
  EXPECT_EQ(formats({.dpr = Dpr::fp8, .dpr_layers = {{"rnn/0", Dpr::fp16}}}), "fp8 fp16 fp16 fp8 ");
  EXPECT_EQ(formats({.dpr_layers = {{"rnn", Dpr::fp10}, {"rnn/0/cell", Dpr::fp8}}}),
            "fp10 fp10 fp8 ");
  try {
    lowered_forms(p, {.dpr_layers = {{"rn", Dpr::fp8}}});
    FAIL() << "no layer has that name";
  } catch (const UsageError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "memory.dpr_layers: the model has no layer rn with feature maps; its layers are rnn, rnn0");
  }
}

}  // namespace
}  // namespace pal::test
