// Gist's figures by the passes, and with measured densities.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "memory/passes/counted_maps.h"
#include "memory/passes/encode.h"
#include "memory/storages/lifetimes.h"
#include "ops/encodings/ssdc.h"
#include "tests/support/files.h"
#include "train/commands/cli.h"
#include "train/commands/commands.h"
#include "train/config/profile.h"
#include "train/loop/step_program.h"
#include "train/papers/paper_networks.h"
#include "train/papers/reproduce_gist.h"
#include "train/run_files/metrics.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

const PaperNetwork& alexnet() {
  static const PaperNetwork network = gist_networks()[0];
  return network;
}
const PaperNetwork& nin() {
  static const PaperNetwork network = gist_networks()[1];
  return network;
}

GistPlanned planned(const Program& p, const GistEncodings& with) {
  KernelCache cache(cpu_device(1));
  return gist_planned(p, with, cache);
}

std::set<std::string> kinds_of(const GistPlanned& step) {
  std::set<std::string> kinds;
  for (const MapForm& map : step.maps) kinds.insert(kind_of(map.form));
  return kinds;
}

bool any_contains(const std::set<std::string>& kinds, const std::string& what) {
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const std::string& kind) { return kind.find(what) != std::string::npos; });
}

// AlexNet's peak with everything is weights, by far.
TEST(GistPlanned, PassesEncodeMapsWhereWeightsAreThePeak) {
  const Program p = alexnet().record(8);
  const GistEncodings with{.binarize = true, .ssdc = true, .inplace = true};
  const GistPlanned none = planned(p, {.inplace = true}), maps = planned(p, with);
  EXPECT_EQ(kinds_of(none), std::set<std::string>{"dense"});
  EXPECT_TRUE(any_contains(kinds_of(maps), "csr"));
  EXPECT_LT(maps.footprint.dynamic, none.footprint.dynamic);
  KernelCache cache(cpu_device(1));
  CompileOptions options;
  options.encode = as_options(p, with);
  const Compiled all = compile(p, cache, StateLayout(p), options);
  for (const MapForm& map : map_forms(all.program, {})) {
    EXPECT_FALSE(map.form.sparse) << map.layer;
  }
}

// Each as it was asked for.
TEST(GistPlanned, FormsAndTheirFootprints) {
  const Program p = nin().record(8);
  const GistPlanned none = planned(p, {.inplace = true}),
                    csr = planned(p, {.binarize = true, .ssdc = true, .inplace = true}),
                    both =
                        planned(p, {.binarize = true, .ssdc = true, .mask = true, .inplace = true}),
                    lossy =
                        planned(p, {.binarize = true, .ssdc = true, .inplace = true, .dpr = "fp8"});
  EXPECT_EQ(kinds_of(none), std::set<std::string>{"dense"});
  EXPECT_TRUE(any_contains(kinds_of(csr), "csr"));
  EXPECT_FALSE(any_contains(kinds_of(csr), "mask"));
  EXPECT_TRUE(any_contains(kinds_of(both), "mask"));
  EXPECT_TRUE(any_contains(kinds_of(lossy), "fp8"));
  EXPECT_LT(csr.footprint.dynamic, none.footprint.dynamic);
  EXPECT_LT(both.footprint.dynamic, csr.footprint.dynamic);
  EXPECT_LT(lossy.footprint.dynamic, csr.footprint.dynamic);
  EXPECT_LT(csr.footprint.bytes_of(MapUse::stashed), none.footprint.bytes_of(MapUse::stashed));
  EXPECT_GT(csr.footprint.bytes_of(MapUse::decoded), 0);
  for (const GistPlanned* step : {&none, &csr, &both, &lossy}) {
    EXPECT_LE(step->footprint.dynamic, step->footprint.cntk);
    EXPECT_LE(step->footprint.cntk, step->footprint.investigation);
    EXPECT_GE(step->footprint.dynamic + 64 * int64_t(step->footprint.maps.size()),
              step->step.lower_bound)
        << "the paper writes no gradient over a feature map";
  }
}

TEST(GistPlanned, WithoutCopiesTheyCostNothing) {
  const Program p = alexnet().record(8);
  GistEncodings with{.binarize = true, .ssdc = true, .inplace = true, .dpr = "fp8"};
  const GistFootprint copies = planned(p, with).footprint;
  with.decoded_copies = false;
  const GistFootprint none = planned(p, with).footprint;
  EXPECT_EQ(none.bytes_of(MapUse::decoded), 0);
  EXPECT_LE(none.dynamic, copies.dynamic);
}

// The map of conv1's relu, stored sparsely where it is known, and not where it is not.
TEST(GistPlanned, OnlyMeasuredMapsAreSparse) {
  const Program p = alexnet().record(8);
  const GistFootprint dense = gist_footprint(p);
  std::map<ValueId, double> measured;
  for (const GistStash& stash : stashes_of(p, dense)) {
    if (stash.pair == LayerPair::relu_conv && measured.empty()) measured[stash.value] = 0.1;
  }
  ASSERT_EQ(measured.size(), 1u);
  GistEncodings with{.ssdc = true, .density = 0.1, .measured = &measured};
  const GistFootprint one = gist_simulation(p, with);
  const int64_t bytes = p.value(measured.begin()->first).spec.bytes();
  EXPECT_EQ(one.bytes_of(MapUse::encoded), ssdc_csr(bytes, 0.1));
  with.binarize = with.inplace = true;
  for (const MapForm& map : planned(p, with).maps) {
    if (map.form.sparse) {
      EXPECT_EQ(map.value, measured.begin()->first) << map.layer;
    }
  }
}

TEST(GistPlanned, TheSmallerSparseForm) {
  for (const double density : {0.05, 0.12, 0.13, 0.5, 0.9}) {
    const int64_t stored = int64_t(std::ceil(density * 4096));
    const int64_t csr = ssdc_bytes({SsdcForm::csr, stored}, 4096, DType::f32),
                  mask = ssdc_bytes({SsdcForm::mask, stored}, 4096, DType::f32);
    EXPECT_EQ(ssdc_csr(4 * 4096, density), csr) << density;
    EXPECT_EQ(ssdc_smaller(4 * 4096, density), std::min(csr, mask)) << density;
  }
}

// A run of the network on other images, of other width and with other labels: its rows as the
// trainer logs them, with densities that tell the number of the map.
class GistDensityTest : public testing::Test {
 protected:
  static std::vector<Override> sets(const std::string& network, bool norm) {
    std::vector<Override> overrides;
    for (const std::string& set :
         {std::string("data.synthetic=true"), std::string("data.classes=20"),
          "model.network=" + network, std::string("data.image_size=96"),
          std::string("train.batch_size=64"), std::string("model.width=0.25"),
          "model.norm=" + std::string(norm ? "true" : "false"),
          std::string("train.label_smoothing=0.1")}) {
      overrides.push_back(parse_set(set));
    }
    return overrides;
  }
  // `as`: the network whose configuration the folder has.
  std::string run_of(const std::string& network, const std::string& as = "", bool norm = true) {
    const Config config = load_config(find_config("zoo_small"), sets(network, norm));
    const auto task = make_task(config);
    Program step = record_plan_step(*task, config, task->bucket_lengths(0));
    for (ValueId v : step.values.ids()) step.value(v).origin = v;
    const fs::path run = folder_.path() / (network + as);
    fs::create_directory(run);
    std::ofstream(run / "config.yaml")
        << dump_config(as.empty() ? config : load_config(find_config("zoo_small"), sets(as, norm)));
    MetricsWriter metrics = MetricsWriter::create(run / "metrics.jsonl");
    for (const double most : {0.3, 0.6, 0.4}) {
      DensityRow row{.step = 1, .program = "train/96x96/only", .maps = {}};
      for (const CountedMap& map : counted_maps(count_nonzeros_of_maps(step))) {
        row.maps.push_back({.value = map.origin,
                            .layer = map.layer,
                            .elements = map.elements,
                            .density = most / double(map.origin)});
      }
      metrics.write(row);
    }
    return run.string();
  }
  const TemporaryFolder folder_;
};

TEST_F(GistDensityTest, NothingGivenIsBothThatThePaperIsComparedWith) {
  const GistDensities both = gist_densities({}, false);
  ASSERT_EQ(both.each.size(), 2u);
  EXPECT_EQ(both.each[0].assumed, 0.5);
  EXPECT_EQ(both.each[1].assumed, 0.2);
  EXPECT_EQ(both.networks.size(), 5u);
  EXPECT_NE(both.said.find("assumed: 0.5, 0.2"), std::string::npos);
  const GistDensities one = gist_densities({"0.3"}, false);
  ASSERT_EQ(one.each.size(), 1u);
  EXPECT_EQ(one.each[0].assumed, 0.3);
  EXPECT_EQ(one.networks.size(), 5u);
}

// Numbers of maps are those of the run's smaller step.
TEST_F(GistDensityTest, OfRunsTheirNetworksWithEachMapsLargest) {
  const GistDensities of = gist_densities({run_of("vgg16"), run_of("googlenet", "", false)}, false);
  ASSERT_EQ(of.networks.size(), 2u);
  ASSERT_EQ(of.each.size(), 1u);
  EXPECT_EQ(of.each[0].what, "measured");
  for (const GistBaseline& n : of.networks) {
    SCOPED_TRACE(n.name);
    GistEncodings with;
    of.each[0].put_into(with, n.name);
    ASSERT_NE(with.measured, nullptr);
    // Every map that SSDC is for is known.
    int targets = 0;
    for (const auto& [value, density] : *with.measured) EXPECT_EQ(density, 0.6 / double(value));
    for (const GistStash& stash : n.stashes) {
      if (stash.pair != LayerPair::relu_conv && stash.pair != LayerPair::pool_conv) continue;
      EXPECT_EQ(with.measured->count(stash.value), 1u) << stash.value;
      ++targets;
    }
    EXPECT_GT(targets, 5);
  }
}

TEST_F(GistDensityTest, WhatIsNotTheTablesIsSaid) {
  auto says = [&](const std::vector<std::string>& given, const std::string& text) {
    const std::string error = usage_error_of([&] { gist_densities(given, false); });
    EXPECT_NE(error.find(text), std::string::npos) << "'" << error << "' lacks '" << text << "'";
  };
  says({"1.5"}, "neither a number from 0 to 1 nor a run's folder");
  says({run_of("googlenet")}, "trained googlenet; the table has alexnet, nin, overfeat, vgg16");
  says({run_of("vgg16", "nin")}, "is of another model: its value");
  const std::string alexnet = run_of("alexnet");
  says({alexnet, alexnet}, "two runs trained alexnet");
  fs::remove(fs::path(alexnet) / "metrics.jsonl");
  says({alexnet}, "has no densities");
}

TEST_F(GistDensityTest, ATableOfARunHasItsNetworkAlone) {
  const std::string run = run_of("alexnet");
  testing::internal::CaptureStdout();
  const auto request =
      parse_command_line("pal", {"reproduce", "gist-fig8", "--density", run, "--json"});
  EXPECT_EQ(run_reproduce(std::any_cast<ReproduceArgs>(request.args)), kExitDone);
  const auto json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  ASSERT_EQ(json["tables"].size(), 2u) << "csr, and mask or csr";
  for (const auto& table : json["tables"]) {
    ASSERT_EQ(table["rows"].size(), 2u);
    EXPECT_EQ(table["rows"][0]["row"], "alexnet");
    EXPECT_EQ(table["rows"][1]["row"], "alexnet, passes");
    EXPECT_EQ(table["rows"][0]["paper: lossless"], "over 1.5x");
    EXPECT_TRUE(table["rows"][0].contains("lossless, measured"));
    EXPECT_FALSE(table["rows"][0].contains("lossless, density 0.5"));
    EXPECT_NE(table["notes"].dump().find("measured"), std::string::npos);
  }
  const std::string error = usage_error_of(
      [] { run_reproduce({.name = "gist-fig13", .measure = {.densities = {"0.5"}}}); });
  EXPECT_NE(usage_error_of([] {
              run_reproduce({.name = "gist-fig16", .measure = {.densities = {"0.5", "0.2"}}});
            }).find("takes one number"),
            std::string::npos);
  EXPECT_EQ(error, "reproduce gist-fig13: takes no --density; nothing in it depends on one");
}

// Of csr's traffic: what a run measured, or a number.
TEST_F(GistDensityTest, SwappingIsComparedWithMeasuredTraffic) {
  auto lossless = [&](const std::string& density) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(
        run_reproduce({.name = "gist-fig15", .json = true, .measure = {.densities = {density}}}),
        kExitDone);
    const auto json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
    return json["tables"][0]["rows"];
  };
  const auto run = lossless(run_of("nin")), dense = lossless("1");
  ASSERT_EQ(run.size(), 1u);
  ASSERT_EQ(dense.size(), 6u) << "five networks and their mean";
  EXPECT_EQ(run[0]["row"], "nin");
  EXPECT_EQ(dense[1]["row"], "nin");
  EXPECT_EQ(run[0]["naive swapping"], dense[1]["naive swapping"]);
  EXPECT_LT(std::stod(run[0]["Gist, lossless"].get<std::string>()),
            std::stod(dense[1]["Gist, lossless"].get<std::string>()));
}

}  // namespace
}  // namespace pal
