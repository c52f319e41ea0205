// pal reproduce: what there is runs, and its tables are whole.
#include "train/papers/reproduce.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "train/commands/commands.h"
#include "train/config/profile.h"
#include "train/papers/paper_networks.h"
#include "train/papers/reproduce_olla.h"

namespace pal {
namespace {

TEST(Reproduce, NamesAreDistinctAndUnknownOnesAreRefusedWithTheNearest) {
  std::set<std::string> names;
  for (const Reproduction& r : reproductions()) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_NE(r.make == nullptr, r.measure == nullptr) << r.name;
  }
  EXPECT_GE(names.size(), 9u);
  try {
    run_reproduce({.name = "echo-fig155"});
    ADD_FAILURE();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean echo-fig15"), std::string::npos) << e.what();
  }
}

TEST(Reproduce, ATableIsOneObjectWithARowOfCellsForEachColumn) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_reproduce({.name = "echo-table1", .json = true}), kExitDone);
  const auto json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(json["name"], "echo-table1");
  EXPECT_EQ(json["profile"], load_profile(kDefaultProfile).name);
  const auto& rows = json["tables"][0]["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1]["paper: baseline"], "10.0");
  const double ours = std::stod(rows[1]["ours: none"].get<std::string>());
  EXPECT_GT(ours, std::stod(rows[1]["mirror"].get<std::string>()));
  EXPECT_GT(ours, 4.0);
  EXPECT_LT(ours, 4.7);
}

// Layer types add up to the plan, but for what packing lost.
TEST(Reproduce, ABreakdownAddsUp) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_reproduce({.name = "echo-fig23", .json = true}), kExitDone);
  const auto json = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  const auto& rows = json["tables"][0]["rows"];
  for (const char* column : {"nothing recomputed, GB", "mirror (Chen et al.), GB", "echo, GB"}) {
    double sum = 0;
    for (const auto& row : rows) {
      if (row["row"] != "in all") sum += std::stod(row[column].get<std::string>());
    }
    EXPECT_NEAR(sum, std::stod(rows.back()[column].get<std::string>()), 0.06) << column;
  }
  EXPECT_LT(std::stod(rows.back()["echo, GB"].get<std::string>()),
            0.6 * std::stod(rows.back()["nothing recomputed, GB"].get<std::string>()));
}

// OLLA's figures take minutes over all networks; one is enough to see that the numbers fit
// together.
TEST(Reproduce, OrderAndPlacementSaveAgainstACachingAllocator) {
  for (const PaperNetwork& n : paper_networks()) {
    if (n.name != "alexnet") continue;
    const OllaComparison c = olla_compare(n.record(1));
    EXPECT_GT(c.nodes, 30);
    EXPECT_LE(c.ordered, c.in_program_order);
    EXPECT_LE(c.ordered, c.planned);
    EXPECT_LE(c.planned_inplace, c.planned);
    EXPECT_LT(c.planned, c.reserved);
    EXPECT_GT(c.its_fragmentation, 0);
    EXPECT_GE(c.our_fragmentation, 0);
    return;
  }
  FAIL() << "no alexnet";
}

TEST(Reproduce, ThePapersNetworksHaveAsManyWeightsAsPublished) {
  int exact = 0;
  for (const PaperNetwork& n : paper_networks()) {
    if (n.published == 0) continue;
    EXPECT_EQ(weights_of(n.record(1)), n.published) << n.name;
    ++exact;
  }
  EXPECT_GE(exact, 18);
}

}  // namespace
}  // namespace pal
