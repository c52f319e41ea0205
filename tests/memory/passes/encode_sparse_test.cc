// Sparse codes in place of feature maps: the same bits, how much room they have, and what happens
// where it is too little.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/print.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/passes/counted_maps.h"
#include "memory/passes/encode.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/kernels/gate.h"
#include "ops/products/matmul.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"
#include "tests/memory/compiled_bits.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

constexpr int64_t kSparseRows = 32,
                  kSparseWidth = 96;  // an activation takes three weights' bytes less

enum class Update { all, first, middle };

// Layers of products and ReLUs, and the update of their weights, or of accumulators.
Program step(int layers, Update update, float max_norm = 0) {
  Builder b;
  Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val h = b.input("x", {{kSparseRows, kSparseWidth}}),
      c = b.input("c", {{kSparseRows, kSparseWidth}});
  std::vector<Val> weights, sums;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(
        b.state("w" + std::to_string(i), {{kSparseWidth, kSparseWidth}}, Role::weight));
    h = relu(matmul(h, weights.back()));
  }
  if (update != Update::all) {
    for (int i = 0; i < layers; ++i) {
      sums.push_back(b.state("sum" + std::to_string(i), {{kSparseWidth, kSparseWidth}},
                             Role::weight_gradient));
    }
  }
  Val loss = sum_all(mul(h, c));
  b.output("loss", loss);
  const auto gradients =
      differentiate(b, loss, weights, update == Update::middle ? sums : std::vector<Val>{});
  if (update != Update::all) {
    for (int i = 0; i < layers; ++i) assign(sums[size_t(i)], gradients[size_t(i)]);
    return b.take();
  }
  Val gate;
  {
    Builder::Within phase(b, Phase::backward);
    std::vector<Val> partials;
    if (max_norm > 0) {
      for (Val g : gradients) partials.push_back(sum_of_squares(g));
    }
    gate = clip_norm_gate(scalars, loss, partials, {.max_norm = max_norm});
    b.output("gate", gate);
  }
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, weights, gradients, scalars, gate);
  return b.take();
}

Program numbered(Program p) {
  for (ValueId v : p.values.ids()) p.value(v).origin = v;
  return p;
}

Program sparse(const Program& p, const Encodings& encodings) {
  const Program out = encode(p, add_sparse(p, encodings, choose_forms(p, encodings)));
  verify(out);
  return out;
}

// The bits of what the program as it was recorded gives.
Bits of_recorded(const Program& p, Bits bits) {
  Bits out;
  for (auto& o : p.outputs) out[o.name] = bits.at(o.name);
  for (auto& slot : p.state) out[slot.name] = bits.at(slot.name);
  return out;
}

Gate overflow_of(const Bits& bits) {
  Gate gate;
  std::memcpy(&gate, bits.at(kOverflowOutput).data(), sizeof gate);
  return gate;
}
int32_t counted(const Bits& bits, const CountedMap& map, size_t i = 0) {
  int32_t count;
  std::memcpy(&count, bits.at(map.output).data() + 4 * i, sizeof count);
  return count;
}

TEST(EncodeSparse, TheSameBitsAndTheCounts) {
  for (const SsdcForm form : {SsdcForm::csr, SsdcForm::mask}) {
    for (const bool binarize : {false, true}) {
      const Program p = numbered(step(4, Update::all));
      const Program out = sparse(
          p, {.binarize = binarize, .ssdc = true, .ssdc_form = form, .assumed_density = 0.6});
      EXPECT_EQ(count_of(out, "ssdc_encode"), 4 - binarize) << print(out);
      EXPECT_EQ(count_of(out, "to_bits"), binarize ? 4 : 0) << print(out);
      const Bits plain = bits_of(p), got = bits_of(out);
      EXPECT_EQ(difference_of(p, plain, of_recorded(p, got)), "");
      EXPECT_EQ(overflow_of(got).apply, 1);
      const auto maps = counted_maps(out);
      ASSERT_EQ(maps.size(), size_t(4 - binarize));
      for (const CountedMap& map : maps) {
        EXPECT_EQ(map.layer.substr(map.layer.size() - 4), "relu");
        EXPECT_EQ(map.elements, kSparseRows * kSparseWidth);
        EXPECT_EQ(map.sparse->capacity, int64_t(std::ceil(0.75 * double(map.elements))));
        EXPECT_EQ(counted(got, map, 1), map.sparse->capacity);
        EXPECT_GT(counted(got, map), map.elements / 4);
        EXPECT_LT(counted(got, map), map.elements * 3 / 4);
      }
    }
  }
}

TEST(EncodeSparse, WhatIsCountedIsWhatIsThenSparse) {
  const Program p = numbered(step(4, Update::all));
  const Program counting = count_nonzeros_of_maps(p);
  verify(counting);
  const Bits seen = bits_of(counting);
  EXPECT_EQ(difference_of(p, bits_of(p), of_recorded(p, seen)), "");
  Encodings encodings{.ssdc = true, .ssdc_margin = 1};
  EXPECT_EQ(counted_maps(counting).size(), 4u) << "what ReLU reads is not read later";
  // A map that is kept as bits may be kept sparse instead.
  const Program bits = encode(p, choose_forms(p, {.binarize = true}));
  EXPECT_EQ(counted_maps(count_nonzeros_of_maps(bits)).size(), 4u);
  for (const CountedMap& map : counted_maps(counting)) {
    EXPECT_FALSE(map.sparse);
    encodings.density[map.origin] = double(counted(seen, map)) / double(map.elements);
  }
  const Program out = sparse(p, encodings);
  const Bits got = bits_of(out);
  EXPECT_EQ(overflow_of(got).apply, 1);
  const auto maps = counted_maps(out);
  EXPECT_EQ(maps.size(), 4u);
  for (const CountedMap& map : maps) EXPECT_EQ(counted(got, map), map.sparse->capacity);
  // A map that no run has counted stays dense.
  encodings.density.erase(maps[1].origin);
  EXPECT_EQ(counted_maps(sparse(p, encodings)).size(), 3u);
  // So does one that is too dense to gain.
  encodings.density[maps[2].origin] = 1;
  EXPECT_EQ(counted_maps(sparse(p, encodings)).size(), 2u);
}

TEST(EncodeSparse, WithTooLittleRoomNoStateChanges) {
  for (const float max_norm : {0.0f, 0.5f}) {
    const Program p = numbered(step(4, Update::all, max_norm));
    const Program out = sparse(p, {.ssdc = true, .assumed_density = 0.3});
    const Bits got = bits_of(out), plain = bits_of(p);
    const Gate gate = overflow_of(got);
    EXPECT_EQ(gate.apply, 0);
    int misses = 0;
    for (const CountedMap& map : counted_maps(out)) {
      misses += counted(got, map) > map.sparse->capacity;
    }
    EXPECT_GT(misses, 0);
    EXPECT_EQ(gate.overflows, float(misses));
    Evaluator before(p);
    for (const StateSlot& slot : p.state) {
      before.set(slot.start, made_up(slot.name, p.value(slot.start).spec));
      EXPECT_EQ(before.bytes(slot.start), got.at(slot.name)) << slot.name;
      EXPECT_NE(plain.at(slot.name), got.at(slot.name)) << slot.name;
    }
    EXPECT_EQ(plain.at("loss"), got.at("loss")) << "the forward phase is exact all the same";
  }
}

TEST(EncodeSparse, AccumulatorsThatAreAddedToAreGated) {
  const Program middle = numbered(step(3, Update::middle));
  const Bits got = bits_of(sparse(middle, {.ssdc = true, .assumed_density = 0.3}));
  EXPECT_EQ(overflow_of(got).apply, 0);
  Evaluator before(middle);
  for (const StateSlot& slot : middle.state) {
    before.set(slot.start, made_up(slot.name, middle.value(slot.start).spec));
    EXPECT_EQ(before.bytes(slot.start), got.at(slot.name)) << slot.name;
  }
  const Bits room = bits_of(sparse(middle, {.ssdc = true, .assumed_density = 0.7}));
  EXPECT_EQ(overflow_of(room).apply, 1);
  EXPECT_EQ(difference_of(middle, bits_of(middle), of_recorded(middle, room)), "");
  // The first micro-batch writes over them, whatever they were.
  const Program first = numbered(step(3, Update::first));
  for (const Node& node : sparse(first, {.ssdc = true, .assumed_density = 0.3}).nodes) {
    if (node.op == &assign_op) {
      EXPECT_FALSE(node.attrs.as<AssignAttrs>().gated);
    }
  }
}

TEST(EncodeSparse, RoundedValuesAreTheSameOnes) {
  const Program p = numbered(step(5, Update::all));
  const Encodings fp8{.dpr = Dpr::fp8};
  const Forms rounded = choose_forms(p, fp8);
  Encodings both = fp8;
  both.ssdc = true, both.ssdc_form = SsdcForm::csr, both.assumed_density = 0.3,
  both.ssdc_margin = 2;
  const auto sparse_and_rounded = [&] {
    int count = 0;
    for (const Form& form : add_sparse(p, both, rounded)) count += form.sparse && form.dpr;
    return count;
  };
  EXPECT_EQ(sparse_and_rounded(), 0) << "two bytes for each of 0.6 are more than one for each";
  both.assumed_density = 0.2, both.ssdc_margin = 1.2;
  EXPECT_EQ(sparse_and_rounded(), 4);
  const Program dense = encode(p, rounded), few = encode(p, add_sparse(p, both, rounded));
  EXPECT_EQ(rounding_of(dense).size(), 16u);
  EXPECT_EQ(rounding_of(dense), rounding_of(few));
  EXPECT_NE(rounding_of(dense), rounding_of(encode(p, choose_forms(p, {.dpr = Dpr::fp16}))));
  // With room for all, what is rounded comes back as the same bits from either.
  Forms forced = rounded;
  for (ValueId v : forced.ids()) {
    if (!forced[v].dpr) continue;
    forced[v].sparse = {SsdcForm::csr, p.value(v).spec.numel(), SsdcValues::fp8};
  }
  EXPECT_EQ(
      difference_of(p, of_recorded(p, bits_of(dense)), of_recorded(p, bits_of(encode(p, forced)))),
      "");
}

// A plan that rounds, made before any density is known and after: also where it recomputes.
TEST(EncodeSparseProperty, WhatIsRoundedDependsNeitherOnDensitiesNorOnCounting) {
  int recomputed = 0, sparse = 0;
  const uint64_t asked = uint64_t(networks_asked(6));
  std::vector<uint64_t> seeds{11, 15, 54};  // the counters' bytes once tipped these
  for (uint64_t seed = 0; seed < asked; ++seed) seeds.push_back(seed);
  for (const uint64_t seed : seeds) {
    const Program recorded = random_network(
        seed,
        {.layers = int((seed % 2 ? 16 : 6) + seed % 9), .batch = seed % 3 ? 16 : 48, .width = 40});
    KernelCache cache{Device{}};
    const StateLayout layout(recorded);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> part(0, 1);
    for (const Recompute method : {Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
      CompileOptions options;
      options.recompute = method, options.recompute_options.overhead = 1;
      options.encode = {.binarize = seed % 5 != 0, .dpr = Dpr(seed % 3)};
      const std::string plain = rounding_of(compile(recorded, cache, layout, options).program);
      options.encode.observe = true;
      const Compiled before = compile(recorded, cache, layout, options);
      EXPECT_EQ(rounding_of(before.program), plain) << "seed " << seed << " " << to_string(method);
      recomputed += !rounding_of(before.program).empty() &&
                    std::any_of(before.program.nodes.begin(), before.program.nodes.end(),
                                [](const Node& n) { return n.phase == Phase::recompute; });
      options.encode.ssdc = true, options.encode.observe = false;
      for (const double most : {0.02, 0.2, 0.5, 1.0}) {
        for (ValueId v : recorded.values.ids()) options.encode.density[v] = most * part(random);
        const Compiled after = compile(recorded, cache, layout, options);
        EXPECT_EQ(rounding_of(after.program), plain)
            << "seed " << seed << " " << to_string(method) << " densities up to " << most;
        sparse += count_of(after.program, "ssdc_encode");
      }
    }
  }
  EXPECT_GT(recomputed, 0);
  EXPECT_GT(sparse, 20);
}

// Two maps in one storage of which only one is worth being sparse: the other stays as it is, since
// which values are rounded is decided without sparse codes.
TEST(EncodeSparse, BesideSparseCodesNothingIsRounded) {
  Builder b;
  Val x = b.input("x", {{256, 64}}), w = b.state("w", {{64, 64}}, Role::weight);
  Val a = relu(matmul(x, w)), s = sigmoid(matmul(x, w)), both = stack({a, s});
  Val loss = sum_all(mul(both, both));
  b.output("loss", loss);
  b.output("d", differentiate(b, loss, {w})[0]);
  Program p = b.take();
  for (ValueId v : p.values.ids()) p.value(v).origin = v;
  Encodings encodings{.dpr = Dpr::fp8, .ssdc = true};
  encodings.density = {{a.id, 0.02}, {s.id, 1.0}, {both.id, 0.1}};
  const Forms rounded = choose_forms(p, encodings);
  EXPECT_TRUE(std::any_of(rounded.begin(), rounded.end(), [](const Form& f) { return !!f.dpr; }));
  for (const Form& form : add_sparse(p, encodings, Forms(p.values.size()))) {
    EXPECT_FALSE(form.dpr);
  }
}

// Which of two alike maps of a layer is rounded makes another result, and other digits.
TEST(EncodeSparse, DigitsTellMapsOfOneLayerApart) {
  Builder b;
  Val x = b.input("x", {{64, 128}}), w = b.state("w", {{128, 128}}, Role::weight);
  Builder::Within scope(b, "block");
  Val one = tanh(matmul(x, w)), two = tanh(matmul(one, w));
  Val loss = sum_all(mul(two, two));
  b.output("loss", loss);
  b.output("d", differentiate(b, loss, {w})[0]);
  Program p = b.take();
  for (ValueId v : p.values.ids()) p.value(v).origin = v;
  Forms first(p.values.size()), second(p.values.size());
  first[one.id].dpr = second[two.id].dpr = Dpr::fp8;
  EXPECT_NE(rounding_of(encode(p, first)), "");
  EXPECT_NE(rounding_of(encode(p, first)), rounding_of(encode(p, second)));
}

// The plan that counts and the one with sparse maps may take other forms, and recompute otherwise.
TEST(EncodeSparseProperty, WhatBecomesSparseWasCounted) {
  size_t sparse = 0, counted = 0, maps = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const Program recorded = random_network(
        seed, {.layers = 4 + int(seed % 9), .batch = seed % 3 ? 16 : 48, .width = 40});
    KernelCache cache{Device{}};
    const StateLayout layout(recorded);
    CompileOptions options;
    options.recompute = seed % 4 == 1 ? Recompute::echo : Recompute::none;
    options.encode.binarize = seed % 2, options.encode.dropout_bits = seed % 5;
    if (seed % 6 == 3) options.encode.dpr = Dpr::fp16;
    CompileOptions counts = options;
    counts.encode.observe = true;
    for (const bool echo : {false, true}) {
      if (echo) counts.recompute = Recompute::echo;  // to fall back on, with a budget
      std::set<ValueId> origins;
      for (const CountedMap& map : counted_maps(compile(recorded, cache, layout, counts).program)) {
        origins.insert(map.origin);
      }
      counted += origins.size();
      options.encode.ssdc = true;
      for (ValueId v : recorded.values.ids()) options.encode.density[v] = 0.3;
      for (const CountedMap& map :
           counted_maps(compile(recorded, cache, layout, options).program)) {
        EXPECT_TRUE(origins.contains(map.origin)) << seed << " " << map.layer << " echo " << echo;
        ++sparse;
      }
    }
    for (const Node& node : recorded.nodes) {
      if (node.phase != Phase::forward) continue;
      for (ValueId v : present(node.out)) {
        maps += 2 * (recorded.value(v).role == Role::feature_map);
      }
    }
  }
  EXPECT_GT(sparse, 30u);
  EXPECT_LT(4 * counted, 3 * maps);
}

// Under all that a plan may do, on networks of real operators.
TEST(EncodeSparseProperty, KeepsBitsAndCostsNoBytes) {
  int lower = 0, encoded = 0;
  for (uint64_t seed = 0; seed < networks_asked(12); ++seed) {
    const Program recorded = random_network(
        seed, {.layers = 4 + int(seed % 9), .batch = seed % 3 ? 16 : 48, .width = 40});
    KernelCache cache{Device{}};
    const StateLayout layout(recorded);
    for (const Recompute method : {Recompute::none, Recompute::sqrt, Recompute::echo}) {
      for (int bits = 0; bits < 8; ++bits) {
        CompileOptions options;
        options.recompute = method;
        options.inplace = bits & 1;
        options.schedule = bits & 2 ? Schedule::lifetime : Schedule::program;
        options.fuse_recompute = options.fuse_epilogues = seed % 2;
        if (bits & 4) options.encode.binarize = options.encode.dropout_bits = true;
        const Compiled plain = compile(recorded, cache, layout, options);
        options.encode.ssdc = true, options.encode.ssdc_margin = 1;
        options.encode.ssdc_form = seed % 2 ? SsdcForm::csr : SsdcForm::mask;
        options.encode.assumed_density = 0.7;
        const Compiled exact = compile(recorded, cache, layout, options);
        const std::string where = "seed " + std::to_string(seed) + " " + to_string(method) +
                                  " options " + std::to_string(bits);
        ASSERT_LE(exact.plan.device().lower_bound, plain.plan.device().lower_bound) << where;
        lower += exact.plan.device().lower_bound < plain.plan.device().lower_bound;
        const int here = count_of(exact.program, "ssdc_encode");
        encoded += here;
        if (here == 0) continue;
        const Bits got = bits_of(exact);
        if (overflow_of(got).apply == 0) continue;
        ASSERT_EQ(difference_of(recorded, bits_of(plain), of_recorded(recorded, got)), "") << where;
      }
    }
  }
  EXPECT_GT(lower, 10);
  EXPECT_GT(encoded, 20);
}

}  // namespace
}  // namespace pal::test
