// Counting maps alone: which storages count, what the passes then judge by, and that no plan is
// made that could run.
#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/builder.h"
#include "core/error.h"
#include "core/print.h"
#include "core/scalars.h"
#include "memory/compile.h"
#include "memory/passes/encode.h"
#include "memory/passes/map_forms.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/state.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

// Products with relu between them, and their gradients. The weights are widths[i] x widths[i + 1].
Program layers(int64_t batch, const std::vector<int64_t>& widths) {
  Builder b;
  Val x = b.input("x", {{batch, widths[0]}});
  std::vector<Val> weights;
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    weights.push_back(b.state("w" + std::to_string(i), {{widths[i], widths[i + 1]}}, Role::weight,
                              {Init::Kind::normal, 0.1f}));
    x = relu(matmul(x, weights.back()));
  }
  Val loss = sum_all(x);
  b.output("loss", loss);
  const std::vector<Val> gradients = differentiate(b, loss, weights);
  for (size_t i = 0; i < weights.size(); ++i) b.output("d" + std::to_string(i), gradients[i]);
  return b.take();
}

const std::vector<int64_t> kEven = {64, 64, 64, 64, 64};

CompileOptions with(const Encodings& encodings) {
  CompileOptions options;
  options.encode = encodings;
  return options;
}

bool is_encoded(const Program& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(),
                     [](const Node& node) { return node.phase == Phase::encode; });
}

TEST(MapsAlone, CountFeatureMapsGradientMapsAndTheirCopies) {
  const Program p = layers(8, kEven);
  const Program encoded = encode(p, choose_forms(p, {.dpr = Dpr::fp16}));
  const Storages all = assign_storages(encoded),
                 maps = assign_storages(encoded, {}, {.maps_alone = true});
  int copies = 0, codes = 0;
  for (const StorageId s : maps.list.ids()) {
    EXPECT_TRUE(all[s].counted);
    EXPECT_EQ(all[s].bytes, maps[s].bytes) << "only what it counts as differs";
    EXPECT_EQ(footprint(maps[s]), maps[s].counted ? footprint(all[s]) : 0);
    for (ValueId v : maps.values_of(s)) {
      const Value& value = encoded.value(v);
      const bool map = value.role == Role::feature_map || value.role == Role::gradient_map ||
                       value.role == Role::encoded;
      if (value.producer == kNone || value.role == Role::weight_gradient) {
        EXPECT_FALSE(maps[s].counted) << "weights, inputs, gradients of weights";
      } else if (map) {
        EXPECT_TRUE(maps[s].counted) << print(encoded);
      }
      copies += value.producer != kNone && encoded.node(value.producer).phase == Phase::decode;
      codes += value.role == Role::encoded;
    }
  }
  EXPECT_GT(copies, 0);
  EXPECT_GT(codes, 0);
}

// Workspaces, by the way, count nothing either.
TEST(MapsAlone, ThePeakIsThatOfMapsByHand) {
  // x w0: 8 x 64 floats, relu in place; the same of each later layer, where one map dies as
  // the next is made but for what gradients read: y0 to y3 are all stashed, 2 kB each.
  const Program p = layers(8, kEven);
  const ByNode<int64_t> workspace(p.nodes.size(), 1 << 20);
  const int64_t peak = peak_bytes(p, workspace, {.maps_alone = true});
  constexpr int64_t kMap = 8 * 64 * 4;
  EXPECT_GE(peak, 4 * kMap);
  EXPECT_LE(peak, 6 * kMap) << "and a gradient or two";
  EXPECT_GT(peak_bytes(p, workspace), peak + 4 * 64 * 64 * 4 + (1 << 20));
}

// Where weights are the peak, a step with everything leaves its maps as they are.
TEST(MapsAlone, PassesJudgeByThemAlone) {
  const Program p = layers(4, {2048, 1024, 16, 16});
  CompileOptions options = with({.binarize = true, .dpr = Dpr::fp8}), plain;
  options.schedule = plain.schedule = Schedule::program;
  KernelCache cache(cpu_device(1));
  const Compiled all = compile(p, cache, StateLayout(p), options);
  ASSERT_FALSE(is_encoded(all.program)) << "the example: a weight's gradient is to be the peak";
  const MapsAlone maps = plan_maps_alone(p, cache, options),
                  none = plan_maps_alone(p, cache, plain);
  EXPECT_TRUE(is_encoded(maps.program));
  EXPECT_LT(maps.lower_bound, none.lower_bound);
  EXPECT_LE(maps.lower_bound, maps.bytes);
  EXPECT_LE(none.lower_bound, none.ours);
  EXPECT_EQ(none.ours, peak_bytes(p, {}, {.maps_alone = true}));
  EXPECT_EQ(maps.ours, none.ours) << "of the recorded step";
  EXPECT_EQ(maps.lower_bound, peak_bytes(maps.program, {}, {.maps_alone = true}));
}

// Fewer forms or more, on steps of many kinds: never more bytes, by the same count.
TEST(MapsAlone, EncodingsNeverCostBytesOfMaps) {
  int fewer = 0;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    const Program p = random_network(seed, {.batch = 16, .width = 32});
    KernelCache cache(cpu_device(1));
    const int64_t plain = plan_maps_alone(p, cache).lower_bound;
    for (const Recompute method : {Recompute::none, Recompute::echo}) {
      CompileOptions options = with({.binarize = true, .dropout_bits = true, .dpr = Dpr::fp8});
      options.recompute = method;
      const MapsAlone maps = plan_maps_alone(p, cache, options);
      EXPECT_LE(maps.lower_bound, plain) << "seed " << seed;
      EXPECT_LE(maps.lower_bound, maps.ours) << "seed " << seed;
      fewer += maps.lower_bound < plain;
    }
  }
  EXPECT_GT(fewer, 25);
}

TEST(MapsAlone, AreNoPlanThatRuns) {
  const Program p = layers(4, {16, 16});
  KernelCache cache(cpu_device(1));
  CompileOptions options;
  options.maps_alone = true;
  try {
    compile(p, cache, StateLayout(p), options);
    ADD_FAILURE();
  } catch (const ProgramError& error) {
    EXPECT_NE(std::string(error.what()).find("plan_maps_alone()"), std::string::npos);
  }
}

}  // namespace
}  // namespace pal::test
