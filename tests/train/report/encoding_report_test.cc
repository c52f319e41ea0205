// What a plan says of its encodings, as lines, JSON and a table: complete, and absent where there
// is nothing to say.
#include "train/report/encoding_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "core/builder.h"
#include "core/text.h"
#include "ops/elementwise/activations.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "tests/train/report/count.h"
#include "train/report/plan_page.h"
#include "train/report/plan_report.h"

namespace pal {
namespace {

Compiled compiled(const Encodings& encodings, int layers = 6) {
  Builder b;
  Val x = b.input("x", {{512, 32}});
  std::vector<Val> weights;
  for (int layer = 0; layer < layers; ++layer) {
    Builder::Within scope(b, "layer<" + std::to_string(layer) + ">");
    weights.push_back(b.weight("w", {{32, 32}}, {Init::Kind::uniform, 0.1f}));
    x = matmul(x, weights.back());
    x = layer % 2 ? tanh(x) : relu(x);
  }
  Val loss = sum_all(x);
  b.output("loss", loss);
  const std::vector<Val> gradients = differentiate(b, loss, weights);
  for (size_t i = 0; i < gradients.size(); ++i) b.output("g" + std::to_string(i), gradients[i]);
  Program program = b.take();
  const StateLayout layout(program);
  KernelCache cache(cpu_device(1));
  return compile(std::move(program), cache, layout, {.encode = encodings});
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(EncodingReport, NothingWhereNothingWasAskedFor) {
  const Compiled c = compiled({});
  EXPECT_TRUE(encoding_lines(c).empty());
  EXPECT_EQ(encoding_html(c), "");
  EXPECT_FALSE(nlohmann::json::parse(plan_json(c, {0, 0})).contains("encodings"));
}

TEST(EncodingReport, ByFormIsTheSumOfTheMaps) {
  const Compiled c = compiled({.binarize = true, .ssdc = true, .assumed_density = 0.5});
  const auto json = nlohmann::json::parse(plan_json(c, {0, 0}))["encodings"];
  ASSERT_GE(json["by_form"].size(), 2u) << json;
  int64_t maps = 0, dense = 0, bytes = 0;
  for (const auto& form : json["by_form"]) {
    maps += form["maps"].get<int64_t>(), dense += form["dense_bytes"].get<int64_t>();
    bytes += form["bytes"].get<int64_t>();
  }
  EXPECT_EQ(maps, int64_t(json["maps"].size()));
  for (const auto& map : json["maps"]) {
    dense -= map["dense_bytes"].get<int64_t>(), bytes -= map["bytes"].get<int64_t>();
    EXPECT_EQ(map.contains("reason"), map["form"] == "dense") << map;
    EXPECT_NE(map["layer"].get<std::string>().find("layer<"), std::string::npos);
  }
  EXPECT_EQ(dense, 0);
  EXPECT_EQ(bytes, 0);
  // A product's operand and result.
  EXPECT_EQ(json["floor_bytes"], 2 * 512 * 32 * 4);
  EXPECT_EQ(json["densities"]["assumed"], 0.5);
  EXPECT_FALSE(json.contains("without_sparse_bytes"));
}

TEST(EncodingReport, Lines) {
  Compiled c = compiled({.ssdc = true, .assumed_density = 0.25});
  PlanFacts facts;
  std::string text = joined(plan_lines(c, facts));
  for (const std::string& said :
       {std::string("  maps that are read later: 2 mask, "),
        std::string("no encoding of maps needs less "), format_bytes(2 * 512 * 32 * 4),
        std::string("a density of 0.25 is assumed")}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  }
  EXPECT_EQ(text.find("without sparse maps"), std::string::npos);

  facts.densities_from = "runs/x", facts.dense_bytes = 123'000'000, facts.dense_recomputes = true;
  c.encode.density = {{1, 0.5}, {2, 0.25}};
  text = joined(plan_lines(c, facts));
  for (const char* said : {"runs/x measured (2 maps)", "without sparse maps 123 MB",
                           "memory.recompute: echo", "the larger of both"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said << "\n" << text;
  }
  const auto json = encoding_json(c, facts);
  EXPECT_EQ(json["densities"]["measured"], "runs/x");
  EXPECT_EQ(json["densities"]["maps"], 2);
  EXPECT_EQ(json["without_sparse_bytes"], 123'000'000);
  EXPECT_EQ(json["without_sparse_recomputes"], true);
}

// A plan that fits, and falls back on one that does not, does not fit.
TEST(EncodingReport, WhatARunFallsBackOnHasToFitToo) {
  const Compiled c = compiled({.ssdc = true, .assumed_density = 0.25});
  const int64_t arena = c.plan.device().bytes;
  PlanFacts facts{.capacity = arena, .dense_bytes = arena};
  EXPECT_EQ(nlohmann::json::parse(plan_json(c, {0, 0}, facts))["fits"], true);
  EXPECT_EQ(joined(plan_lines(c, facts)).find("does not fit"), std::string::npos);
  facts.dense_bytes = arena + 1'000'000;
  EXPECT_EQ(nlohmann::json::parse(plan_json(c, {0, 0}, facts))["fits"], false);
  EXPECT_NE(joined(plan_lines(c, facts)).find("1.00 MB over without sparse maps"),
            std::string::npos);
}

TEST(EncodingReport, WhereARunKeepsNoMapSparse) {
  const Compiled c = compiled({.binarize = true});
  PlanFacts facts{.dense_bytes = 5'000'000, .sparse_bytes = 5'000'000};
  EXPECT_NE(joined(encoding_lines(c, facts))
                .find("no map is kept sparse: that plan would need 5.00 MB, which is not a per "
                      "cent less\n"),
            std::string::npos);
  facts.capacity = 4'999'999, facts.dense_recomputes = true;
  EXPECT_NE(joined(encoding_lines(c, facts))
                .find("5.00 MB, which is over the budget; this one is with memory.recompute: echo"),
            std::string::npos);
  EXPECT_EQ(encoding_json(c, facts)["kept_sparse"], false);
  EXPECT_NE(encoding_html(c, facts).find("which is over the budget"), std::string::npos);
}

TEST(EncodingReport, ThePageHasARowForEachLayer) {
  const Compiled c = compiled({.binarize = true, .dpr = Dpr::fp8});
  const std::string table = encoding_html(c);
  const size_t maps = encoding_json(c)["maps"].size();
  EXPECT_EQ(count(table, "<tr>"), 1 + maps);
  EXPECT_EQ(count(table, "<td class=\"track\">"), maps);
  EXPECT_NE(table.find("layer&lt;1&gt; tanh"), std::string::npos) << table;
  EXPECT_NE(plan_html(c, {.name = "n"}).find(table), std::string::npos);
  for (const char* tag : {"div", "table", "tr", "td", "th", "p"}) {
    const std::string name = tag;
    EXPECT_EQ(count(table, "<" + name + ">") + count(table, "<" + name + " "),
              count(table, "</" + name + ">"))
        << tag;
  }
}

TEST(EncodingReport, OfManyLayersTheLargestAndAllTheRest) {
  const Compiled c = compiled({.binarize = true}, 150);
  const std::string table = encoding_html(c);
  EXPECT_EQ(count(table, "<tr>"), 62u);
  EXPECT_EQ(count(table, "all the rest"), 1u);
  int64_t dense = 0;
  const auto json = encoding_json(c);
  for (const auto& map : json["maps"]) dense += map["dense_bytes"].get<int64_t>();
  EXPECT_NE(table.find(format_bytes(dense) + " as their layers write them"), std::string::npos);
}

}  // namespace
}  // namespace pal
