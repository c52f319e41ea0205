// Bits and codes in place of feature maps: what is encoded and what is not, alone and as a choice
// of Echo's; that exact forms change nothing but bytes, and rounded ones no predicate and no
// forward value.
#include "memory/passes/encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "autograd/differentiate.h"
#include "core/error.h"
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
#include "ops/encodings/dpr.h"
#include "ops/norms/batch_norm.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"
#include "tests/memory/compiled_bits.h"
#include "tests/support/random_network.h"

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

int times(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
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

// Two products with an activation between: its output is read by the second one's weight gradient,
// and by its own gradient.
Program two_products(Val (*activation)(Val), float factor = 1) {
  return step_of(
      2, [&](Val x, auto& w) { return matmul(activation(scale(matmul(x, w[0]), factor)), w[1]); });
}

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
  auto bits = [&](bool fuse) {
    const Program encoded = encode(p, choose_forms(p, kBits));
    return count_of(compile(encoded, cache, layout, {.fuse_epilogues = fuse}).program, "to_bits");
  };
  EXPECT_EQ(bits(false), 1);
  EXPECT_EQ(bits(true), 0);  // the pool's gradient has done what relu's would
}

}  // namespace
}  // namespace pal::test
