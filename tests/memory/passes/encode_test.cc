// Bits in place of feature maps: what is encoded and what is not; that exact forms change nothing
// but bytes, and that no form costs bytes.
#include "memory/passes/encode.h"

#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "core/prepare.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/encodings/dpr.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/passes/encode_toys.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

Program stashed(const Program& p, int expected) {
  const Forms forms = choose_forms(p, kBits);
  const Program out = encode(p, forms);
  verify(out);
  EXPECT_EQ(count_encoded(forms), expected) << print(out);
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

TEST(Encode, MasksAreAChoiceOfTheirOwn) {
  Builder b;
  Val scalars = b.input("scalars", scalars_spec());
  Val w = b.state("w", {{kRows, kWide}}, Role::weight);
  Val y = dropout_apply(relu(scale(w, 2)), dropout_mask(scalars, w.spec(), 0.3f), 0.3f);
  const Program p = finished(b, sum_all(y), {w});
  const auto kept = [&](const Encodings& encodings) {
    return count_encoded(choose_forms(p, encodings));
  };
  EXPECT_EQ(kept({.binarize = true}), 1) << "relu alone";
  EXPECT_EQ(kept({.dropout_bits = true}), 1) << "the mask alone";
  EXPECT_EQ(kept(kBits), 2);
  EXPECT_EQ(kept({}), 0);
}

std::string note_of(const Program& p, const CompileOptions& options) {
  KernelCache cache{Device{}};
  for (const PassReport& report : compile(p, cache, StateLayout(p), options).passes) {
    if (report.name == "encode") return report.note;
  }
  return "no line";
}

// That no map is eligible is something else than that no form lowers the peak.
TEST(Encode, SaysWhyNothingIsEncoded) {
  const Program products =
      step_of(2, [](Val x, const std::vector<Val>& w) { return matmul(matmul(x, w[0]), w[1]); });
  EXPECT_EQ(note_of(products, {.encode = kBits}), "no feature map is eligible");
  const Program relus = step_of(2, [](Val x, const std::vector<Val>& w) {
    return matmul(scale(relu(matmul(x, w[0])), 2), w[1]);
  });
  EXPECT_EQ(note_of(relus, {.encode = kBits}).find("eligible"), std::string::npos);
  EXPECT_EQ(note_of(relus, {.encode = {.ssdc = true}}), "the density of no map is known");

  // Its one map would be decoded at the peak.
  Builder b;
  Val w = b.state("w", {{kRows, kWide}}, Role::weight);
  Val y = tanh(mul(w, b.input("x", {{kRows, kWide}})));
  Val loss = sum_all(mul(y, b.input("c", {{kRows, kWide}})));
  b.output("loss", loss);
  b.output("d", differentiate(b, loss, {w})[0]);
  EXPECT_EQ(note_of(b.take(), {.encode = {.dpr = Dpr::fp8}}),
            "0 values kept as bits, 1 rounded, 0 sparse: 16.4 kB instead of 65.5 kB: the peak "
            "would be no lower, so all stay as they are");
}

TEST(Encode, DescribesFormsToTheByte) {
  Builder b;
  Val y = tanh(b.input("x", {{64}}));
  const Program p = b.take();
  Forms forms(p.values.size());
  EXPECT_EQ(describe(p, forms), "no feature map is eligible");
  forms[y.id].dpr = Dpr::fp8;
  EXPECT_EQ(describe(p, forms),
            "0 values kept as bits, 1 rounded, 0 sparse: 64 B instead of 256 B");
}

// Under all that a plan may do, on networks of real operators.
TEST(EncodeProperty, ExactFormsKeepBitsAndNoFormCostsBytes) {
  int lower = 0, encoded = 0, decoded = 0;
  for (uint64_t seed = 0; seed < networks_asked(12); ++seed) {
    const bool wide = seed % 3 == 0;
    const Program step = random_network(
        seed, {.layers = 4 + int(seed % 9), .batch = wide ? 48 : 16, .width = wide ? 80 : 12});
    KernelCache cache{Device{}};
    const StateLayout layout(step);
    for (const Recompute method : {Recompute::none, Recompute::sqrt, Recompute::echo}) {
      for (int bits = 0; bits < 4; ++bits) {
        CompileOptions options;
        options.recompute = method;
        options.inplace = bits & 1;
        options.schedule = bits & 2 ? Schedule::lifetime : Schedule::program;
        options.fuse_recompute = options.fuse_epilogues = seed % 2;
        const std::string where = "seed " + std::to_string(seed) + " " + to_string(method) +
                                  " options " + std::to_string(bits);
        const Compiled plain = compile(step, cache, layout, options);
        options.encode = kBits;
        const Compiled exact = compile(step, cache, layout, options);
        ASSERT_EQ(difference_of(step, bits_of(plain), bits_of(exact)), "") << where;
        ASSERT_LE(exact.plan.device().lower_bound, plain.plan.device().lower_bound) << where;
        options.encode.dpr = Dpr(seed % 3);
        const Compiled rounded = compile(step, cache, layout, options);
        ASSERT_EQ(bits_of(plain.program).at("loss"), bits_of(rounded.program).at("loss")) << where;
        ASSERT_LE(rounded.plan.device().lower_bound, plain.plan.device().lower_bound) << where;
        lower += rounded.plan.device().bytes < plain.plan.device().bytes;
        encoded += count_of(exact.program, "to_bits");
        decoded += count_of(rounded.program, "dpr_decode");
      }
    }
  }
  EXPECT_GT(lower, 20);
  EXPECT_GT(encoded, 20);
  EXPECT_GT(decoded, 50);
}

}  // namespace
}  // namespace pal::test
