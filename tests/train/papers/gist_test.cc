// Gist's accounting of its networks at their published sizes, and its tables.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "memory/price/gist_baseline.h"
#include "ops/convolution/avg_pool.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "tests/train/papers/whole_table.h"
#include "train/commands/commands.h"
#include "train/config/profile.h"
#include "train/papers/paper_networks.h"
#include "train/papers/reproduce_gist.h"

namespace pal {
namespace {

const std::vector<GistBaseline>& networks() {
  static const std::vector<GistBaseline> all = gist_baselines();
  return all;
}
const GistBaseline& network(const std::string& name) {
  for (const GistBaseline& n : networks()) {
    if (n.name == name) return n;
  }
  ADD_FAILURE() << "no " << name;
  return networks().front();
}

TEST(Gist, AccountingsAreInOrderOnAllNetworks) {
  EXPECT_EQ(networks().size(), 7u);
  for (const GistBaseline& n : networks()) {
    SCOPED_TRACE(n.name);
    const GistFloor floor = gist_floor(n.program);
    for (const bool inplace : {false, true}) {
      for (const bool map : {false, true}) {
        const GistFootprint f = gist_footprint(n.program, {.inplace = inplace, .pool_map = map});
        EXPECT_GE(f.investigation, f.cntk);
        EXPECT_GE(f.cntk, f.dynamic);
        EXPECT_GE(f.dynamic, floor.bytes);
        EXPECT_EQ(f.bytes_of(MapUse::encoded) + f.bytes_of(MapUse::decoded), 0);
      }
    }
    EXPECT_GT(floor.bytes, 0);
    int64_t stashed = 0;
    for (const GistStash& stash : n.stashes) {
      EXPECT_GT(stash.bytes, 0);
      stashed += stash.bytes;
    }
    EXPECT_EQ(stashed, n.stashed());
    // The gap of figure 2 lies between two uses of every stashed map.
    for (const GistMap& map : n.footprint.maps) {
      if (map.use != MapUse::stashed) continue;
      EXPECT_LE(map.buffer.lower, 2 * int64_t(map.first_use));
      EXPECT_LT(map.first_use, map.second_use);
      EXPECT_LT(2 * int64_t(map.second_use), map.buffer.upper);
    }
  }
}

// Maps of VGG16 in millions of elements an image, by hand: ReLU before pooling 3.2 + 1.6 + 0.8 +
// 0.4 + 0.1, before convolutions 3.2 + 1.6 + 2 x 0.8 + 2 x 0.4 + 2 x 0.1.
TEST(Gist, Vgg16IsAsThePaperSays) {
  const GistBaseline& n = network("vgg16");
  constexpr int64_t kFirst = int64_t(64) * 64 * 224 * 224 * 4;  // the largest map
  EXPECT_EQ(n.stashed(LayerPair::relu_pool), kFirst / 32 * (32 + 16 + 8 + 4 + 1));
  EXPECT_EQ(n.stashed(LayerPair::relu_conv), kFirst / 32 * (32 + 16 + 16 + 8 + 2));
  EXPECT_NEAR(double(n.stashed(LayerPair::relu_pool)) / double(n.stashed()), 0.40, 0.01);
  EXPECT_NEAR(double(n.stashed(LayerPair::relu_conv)) / double(n.stashed()), 0.49, 0.01);
  EXPECT_EQ(gist_floor(n.program).bytes, 2 * kFirst);
  const BesideMaps beside = beside_maps(n.program);
  EXPECT_EQ(beside.weights, 138'357'544 * 4);
  EXPECT_EQ(beside.weight_gradients, beside.weights);
  // The workspace of 0.02 GB is left out.
  const double maps = double(n.footprint.cntk);
  EXPECT_NEAR(maps / (maps + 2 * double(beside.weights)), 0.83, 0.01);
}

TEST(Gist, InceptionIsAlmostAllMaps) {
  const GistBaseline& n = network("inception");
  const BesideMaps beside = beside_maps(n.program);
  const double maps = double(n.footprint.cntk);
  EXPECT_NEAR(maps / (maps + 2 * double(beside.weights)), 0.97, 0.005);
  for (const Node& node : n.program.nodes) {
    const std::string op = node.op->name;
    EXPECT_FALSE(op.starts_with("batch_norm") || op.starts_with("lrn")) << op;
  }
  // The six joined branches of modules that pooling follows or a convolution reads.
  EXPECT_GT(n.stashed(LayerPair::relu_join), 0);
}

// A map has the same bytes in every accounting; less is stashed with every further encoding, and
// where kernels read encoded maps no more is alive at once.
TEST(Gist, EncodingsStashLess) {
  for (const GistBaseline& n : networks()) {
    SCOPED_TRACE(n.name);
    auto stashed = [&](const GistEncodings& with) {
      const GistFootprint f = gist_simulation(n.program, with);
      EXPECT_LE(f.dynamic, f.cntk);
      EXPECT_EQ(f.investigation_by_use[size_t(MapUse::encoded)], f.bytes_of(MapUse::encoded));
      return f.bytes_of(MapUse::stashed) + f.bytes_of(MapUse::encoded);
    };
    EXPECT_EQ(stashed({}), n.stashed());
    const int64_t relu_pool = n.stashed(LayerPair::relu_pool);
    const int64_t sparse = n.stashed(LayerPair::relu_conv) + n.stashed(LayerPair::pool_conv);
    if (n.stashed(LayerPair::relu_join) == 0) {  // with joins most pooling is not of ReLU
      EXPECT_LE(stashed({.binarize = true}), n.stashed() - relu_pool * 15 / 16);
    }
    EXPECT_NEAR(double(stashed({.ssdc = true})),
                double(n.stashed() - sparse + ssdc_csr(sparse, 0.5)), 4096);
    EXPECT_NEAR(double(stashed({.dpr = "fp8"})), double(n.stashed()) / 4, 4096);
    GistEncodings all{.binarize = true, .ssdc = true, .inplace = true, .dpr = "fp16"};
    const int64_t copies = gist_simulation(n.program, all).dynamic;
    all.decoded_copies = false;
    EXPECT_LE(gist_simulation(n.program, all).dynamic, copies);
  }
}

TEST(Gist, GradientsReadWhatFigure4Says) {
  EXPECT_EQ(backward_reads(relu_op, {"X"}, {"Y"}), "Y (one bit an element), dY");
  EXPECT_EQ(backward_reads(conv2d_op, {"X", "W", "bias"}, {"Y"}), "X, W, dY");
  EXPECT_EQ(backward_reads(max_pool_op, {"X"}, {"Y", "map"}), "map, dY");
  EXPECT_EQ(backward_reads(avg_pool_op, {"X"}, {"Y"}), "dY");
}

TEST(Gist, FormatsHaveThePapersBytes) {
  EXPECT_EQ(binarized(4096), 128);
  EXPECT_EQ(pool_map(4096), 512);
  EXPECT_EQ(ssdc_csr(4 * 256, 1), 256 * 5 + 4);
  // Better than dense above 20.3 % zeros.
  EXPECT_LT(ssdc_csr(1 << 20, 1 - 0.204), 1 << 20);
  EXPECT_GT(ssdc_csr(1 << 20, 1 - 0.202), 1 << 20);
  EXPECT_EQ(reduced(4 * 12, "fp16"), 24);
  EXPECT_EQ(reduced(4 * 12, "fp10"), 16);
  EXPECT_EQ(reduced(4 * 12, "fp8"), 12);
  EXPECT_EQ(reduced(4 * 13, "fp10"), 20);
}

nlohmann::json made(const std::string& name) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_reproduce({.name = name, .json = true}), 0);
  return nlohmann::json::parse(testing::internal::GetCapturedStdout());
}

TEST(Gist, ItsTablesAreWhole) {
  std::vector<Reproduction> all(gist_reproductions().begin(), gist_reproductions().end());
  const auto encoded = gist_encoded_reproductions();
  all.insert(all.end(), encoded.begin(), encoded.end());
  for (const Reproduction& r : all) {
    for (const ReproducedTable& table : r.make(load_profile(kDefaultProfile))) {
      SCOPED_TRACE(r.name);
      expect_whole(table);
    }
  }
}

TEST(Gist, Figure7Has18And12Megabytes) {
  const auto json = made("gist-fig7");
  for (const auto& [table, mb] : {std::pair{0, "18"}, std::pair{1, "12"}}) {
    const auto& rows = json["tables"][size_t(table)]["rows"];
    const size_t n = rows.size();
    EXPECT_EQ(rows[n - 2]["row"], "in all");
    EXPECT_EQ(rows[n - 2]["MB"], mb);
    EXPECT_EQ(rows[n - 1]["MB"], mb) << "the paper";
  }
}

}  // namespace
}  // namespace pal
