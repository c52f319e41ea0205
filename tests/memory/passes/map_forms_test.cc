// What a plan says of its maps: each form as the encode nodes have it, and for every dense map the
// reason by which the pass left it so.
#include "memory/passes/map_forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "autograd/differentiate.h"
#include "core/builder.h"
#include "core/scalars.h"
#include "memory/compile.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/kernels/tiles.h"
#include "ops/losses/cross_entropy.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/clip_bits.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/views.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

constexpr int64_t kLong = 64, kSquare = 128;

using NetworkOfMaps = std::function<Val(Builder&, Val x, Val w)>;

Program step_through(const NetworkOfMaps& network, std::vector<std::string> outputs_of = {}) {
  Builder b;
  Val x = b.input("x", {{kLong, kSquare}});
  Val w = b.state("w", {{kSquare, kSquare}}, Role::weight);
  Val loss;
  {
    Builder::Within scope(b, "layer");
    loss = sum_all(network(b, x, w));
  }
  b.output("loss", loss);
  b.output("d", differentiate(b, loss, {w})[0]);
  Program p = b.take();
  for (const Node& node : p.nodes) {
    for (const std::string& op : outputs_of) {
      if (op == node.op->name) p.outputs.push_back({op, node.out[0]});
    }
  }
  for (ValueId v : p.values.ids()) p.value(v).origin = v;
  return p;
}

// "relu bits; matmul dense (read as values)" of what has a row.
std::string told_because(const Program& p, const DenseReasons& reasons) {
  std::string text;
  for (const MapForm& map : map_forms(p, reasons)) {
    EXPECT_EQ(map.reason.empty(), !map.form.is_dense()) << map.layer;
    text += (text.empty() ? "" : "; ") + map.layer + " " + describe(map.form, map.spec);
    if (!map.reason.empty()) text += " (" + map.reason + ")";
  }
  return text;
}
std::string told(const Program& p, const Encodings& encodings) {
  return told_because(p, dense_reasons(p, encodings));
}
std::string told_encoded(const Program& p, const Encodings& encodings) {
  const Forms forms = choose_forms(p, encodings);
  return told_because(encode(p, encodings.ssdc ? add_sparse(p, encodings, forms) : forms),
                      dense_reasons(p, encodings));
}

Program two_products() {
  return step_through([](Builder&, Val x, Val w) { return matmul(relu(matmul(x, w)), w); });
}

TEST(MapForms, FormsAsTheNodesHaveThem) {
  const Program p = two_products();
  EXPECT_EQ(told_encoded(p, {.binarize = true, .dpr = Dpr::fp8}), "layer relu bits, fp8");
  EXPECT_EQ(told_encoded(p, {.dpr = Dpr::fp16,
                             .ssdc = true,
                             .ssdc_form = SsdcForm::csr,
                             .ssdc_margin = 1,
                             .assumed_density = 0.25}),
            "layer relu bits, csr 0.25 fp16");
  EXPECT_EQ(told_encoded(p, {.ssdc = true, .ssdc_form = SsdcForm::mask, .assumed_density = 0.4}),
            "layer relu mask 0.50");
  const Program bits =
      step_through([](Builder&, Val x, Val w) { return scale(relu(matmul(x, w)), 2); });
  EXPECT_EQ(told_encoded(bits, {.binarize = true}), "layer relu bits");
  EXPECT_EQ(kind_of({.dpr = Dpr::fp10, .sparse = SsdcAttrs{SsdcForm::csr, 7, SsdcValues::fp10}}),
            "csr fp10");
}

TEST(MapForms, Bytes) {
  const Program p = two_products();
  const Encodings fp8{.binarize = true, .dpr = Dpr::fp8};
  const auto maps = map_forms(encode(p, choose_forms(p, fp8)), {});
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps[0].dense_bytes, kLong * kSquare * 4);
  EXPECT_EQ(maps[0].bytes, kLong * kSquare / 8 + kLong * kSquare);
  const auto dense = map_forms(p, {});
  ASSERT_EQ(dense.size(), 1u);
  EXPECT_EQ(dense[0].bytes, dense[0].dense_bytes);
}

TEST(MapForms, WhyAMapIsDense) {
  const Program p = two_products();
  EXPECT_EQ(told(p, {.binarize = true}), "layer relu dense (read as values)");
  EXPECT_EQ(told(p, {.ssdc = true}), "layer relu dense (density not known)");
  EXPECT_EQ(told_encoded(p, {.ssdc = true, .assumed_density = 0.99}),
            "layer relu dense (would not shrink at its density)");
  EXPECT_EQ(told(p, {.binarize = true, .ssdc = true}),
            "layer relu dense (read as values; sparse: density not known)");
  const Program two_layers = step_through([](Builder& b, Val x, Val w) {
    Val y = relu(matmul(x, w));
    Builder::Within scope(b, "other");
    return matmul(y, w);
  });
  EXPECT_EQ(told_encoded(two_layers, {.dpr_layers = {{"layer/other", Dpr::fp8}}}),
            "layer relu dense (its layer has no dpr_ format)");
  const Program bits =
      step_through([](Builder&, Val x, Val w) { return scale(relu(matmul(x, w)), 2); });
  EXPECT_EQ(told_encoded(bits, {.dropout_bits = true}), "layer relu dense (no binarize)");
  // Forms that the pass may take, and has not: only the peak is left as a reason.
  EXPECT_EQ(told(bits, {.binarize = true}),
            "layer relu dense (the peak would be no lower, or its copy would raise it)");

  const NetworkOfMaps stored = [](Builder&, Val x, Val w) { return matmul(relu(matmul(x, w)), w); };
  EXPECT_EQ(told_encoded(step_through(stored, {"relu"}), {.dpr = Dpr::fp8}),
            "layer relu dense (an output)");
  const Program masked = step_through([](Builder& b, Val x, Val w) {
    Val scalars = b.input("scalars", scalars_spec());
    return dropout_apply(matmul(x, w), dropout_mask(scalars, {{kLong, kSquare}}, 0.3f), 0.3f);
  });
  EXPECT_EQ(told_encoded(masked, {.binarize = true}), "layer dropout_mask dense (no dropout_bits)");
  const Program pooled = step_through([](Builder&, Val x, Val w) {
    return max_pool(reshape(matmul(x, w), {1, kLong, kSquare, 1}), max_pool_attrs(2, 2)).y;
  });
  EXPECT_EQ(told_encoded(pooled, {.dpr = Dpr::fp8}), "layer max_pool dense (not f32 or bf16)");
}

// Logits that are rounded, held against the exact log sum of their exponentials, give probabilities
// that do not sum to one.
TEST(MapForms, ALossReadsExactLogits) {
  const Program p = step_through([](Builder& b, Val x, Val w) {
    Val targets = b.input("targets", {{kLong}, DType::i32});
    return cross_entropy(matmul(relu(matmul(x, w)), w), targets, b.input("scalars", scalars_spec()))
        .loss;
  });
  const std::string all = told_encoded(p, {.dpr = Dpr::fp8});
  EXPECT_NE(all.find("layer relu bits, fp8"), std::string::npos) << all;
  EXPECT_NE(all.find("layer matmul dense (a reader asks for exact values)"), std::string::npos)
      << all;
  EXPECT_EQ(all.find("matmul fp8"), std::string::npos) << all;
}

TEST(MapForms, WhyAStatisticACloneOrAViewIsDense) {
  // A sum of a row each beside a map of 128 columns.
  const Program sums = step_through([](Builder&, Val x, Val w) {
    Val rows = sum_leading(matmul(x, w));
    return mul(rows, rows);
  });
  EXPECT_EQ(told_encoded(sums, {.dpr = Dpr::fp8}), "layer sum_leading dense (a statistic)");

  Program cloned = two_products();
  for (Node& node : cloned.nodes) {
    if (node.phase == Phase::backward && std::string(node.op->name) == "matmul") {
      node.phase = Phase::recompute;
    }
  }
  EXPECT_EQ(told_encoded(cloned, {.dpr = Dpr::fp8}), "layer relu dense (a clone reads it)");

  // Both are read later, and the bytes are told once.
  const Program viewed = step_through([](Builder&, Val x, Val w) {
    Val y = tanh(matmul(x, w));
    return matmul(reshape(y, {kLong, kSquare}), w);
  });
  const auto maps = map_forms(viewed, {});
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps[0].layer, "layer tanh");
}

// A density is assumed where the maker makes zeros, or keeps those of all that it reads; one that
// was measured is taken of any map.
TEST(MapForms, AnAssumedDensityIsOfMapsWithZeros) {
  const NetworkOfMaps chain = [](Builder& b, Val x, Val w) {
    Val scalars = b.input("scalars", scalars_spec());
    Val y = relu(matmul(x, w)), t = tanh(matmul(y, w));
    Val flat = reshape(matmul(dropout(t, scalars, 0.5f), w), {1, kLong, kSquare, 1});
    Val open = max_pool(flat, max_pool_attrs(3, 1, 1)).y;
    Val shut = max_pool(relu(flat), max_pool_attrs(3, 1, 1)).y;
    Val one = concatenate({shut, open}), two = concatenate({shut, shut});
    Val u = reshape(slice_columns(mul(two, two), 1, 2), {kLong, kSquare});
    return mul(matmul(u, w), reshape(slice_columns(mul(one, one), 0, 1), {kLong, kSquare}));
  };
  const Program p = step_through(chain);
  Encodings half{.ssdc = true, .assumed_density = 0.5};
  const std::string dense = "(makes no zeros)";
  std::map<std::string, std::string> by_layer;
  for (const MapForm& map :
       map_forms(encode(p, add_sparse(p, half, choose_forms(p, half))), dense_reasons(p, half))) {
    if (p.value(map.value).spec.numel() < kLong * kSquare || !is_float(map.spec.dtype)) continue;
    const std::string said = map.form.is_dense() ? "(" + map.reason + ")" : kind_of(map.form);
    std::string& all = by_layer[map.layer.substr(6)];
    if (all.find(said) == std::string::npos) all += said;
  }
  const std::map<std::string, std::string> expected{
      {"relu", "mask"},  {"tanh", dense},   {"dropout", "mask"}, {"concatenate", dense + "mask"},
      {"matmul", dense}, {"reshape", dense}};
  EXPECT_EQ(by_layer, expected);

  for (const Node& node : p.nodes) {
    if (node.op == &tanh_op) half.density[node.out[0]] = 0.25;
  }
  EXPECT_NE(told_encoded(p, half).find("layer tanh mask 0.31"), std::string::npos);
}

TEST(MapForms, ALayerWithoutAScopeIsNamedByWhatItReads) {
  Builder b;
  Val x = b.input("x", {{kLong, kSquare}}), w = b.state("w", {{kSquare, kSquare}}, Role::weight);
  Val y;
  {
    Builder::Within scope(b, "conv1");
    y = matmul(x, w);
  }
  y = relu(y);
  Val z = relu(x);
  const Program p = b.program();
  EXPECT_EQ(layer_of(p, p.node(p.value(y.id).producer)), "relu after conv1");
  EXPECT_EQ(layer_of(p, p.node(p.value(z.id).producer)), "relu");
}

// Of networks at random and all that a plan may do: every encode node has its row, no dense map is
// without a reason, and no byte is told twice.
TEST(MapFormsProperty, EveryMapHasAFormOrAReason) {
  std::set<std::string> kinds, reasons;
  int fused = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const Program recorded =
        random_network(seed, {.layers = 4 + int(seed % 9), .batch = 48, .width = 40});
    KernelCache cache{Device{}};
    CompileOptions options;
    options.recompute = seed % 3 ? Recompute::echo : Recompute::none;
    options.encode.binarize = seed % 2, options.encode.dropout_bits = seed % 5;
    if (seed % 4 < 2) options.encode.dpr = Dpr(seed % 3);
    options.encode.ssdc = seed % 4 > 0, options.encode.assumed_density = 0.6;
    const Compiled c = compile(recorded, cache, StateLayout(recorded), options);
    std::set<ValueId> encoded;
    for (const Node& node : c.program.nodes) {
      if (node.phase == Phase::encode) encoded.insert(node.in[0]);
      fused += node.op == &clip_bits_op;
      if (node.op == &clip_bits_op) encoded.insert(node.out[0]);
    }
    int64_t dense = 0, all = 0;
    for (const MapForm& map : map_forms(c.program, c.dense_maps)) {
      EXPECT_EQ(encoded.erase(map.value), size_t(!map.form.is_dense())) << map.layer;
      EXPECT_EQ(map.reason.empty(), !map.form.is_dense()) << map.layer;
      kinds.insert(kind_of(map.form)), reasons.insert(map.reason);
      dense += map.dense_bytes;
    }
    EXPECT_TRUE(encoded.empty()) << seed;
    const Storages apart = assign_storages(c.program, {}, {.inplace = false});
    for (const Storage& storage : apart.list) all += align_up(storage.bytes);
    EXPECT_LE(dense, all);
  }
  EXPECT_GT(fused, 4);
  EXPECT_GT(kinds.size(), 4u);
  EXPECT_GT(reasons.size(), 4u);
}

// What was not recorded as a value of this step is not counted.
TEST(ValuesToCount, AreThoseOfTheRecordedStep) {
  const Program p = random_network(3, {.layers = 12, .batch = 64, .width = 64});
  const auto counted = [&](auto origin_of) {
    Program step = p;
    for (ValueId v : step.values.ids()) step.value(v).origin = origin_of(v);
    const ByValue<char> which = values_to_count(step);
    return std::count(which.begin(), which.end(), 1);
  };
  EXPECT_GT(counted([](ValueId v) { return v; }), 3);
  EXPECT_EQ(counted([](ValueId) { return ValueId(kNone); }), 0);
  EXPECT_EQ(counted([&](ValueId) { return p.values.next_id(); }), 0);
}

}  // namespace
}  // namespace pal::test
