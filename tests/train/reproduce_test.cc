// pal reproduce: what there is runs, and its tables are whole.
#include "train/reproduce.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "train/commands.h"
#include "train/profile.h"

namespace pal {
namespace {

TEST(Reproduce, NamesAreDistinctAndUnknownOnesAreRefusedWithTheNearest) {
  std::set<std::string> names;
  for (auto list : {echo_reproductions(), olla_reproductions()}) {
    for (const Reproduction& r : list) EXPECT_TRUE(names.insert(r.name).second) << r.name;
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

TEST(Reproduce, EveryTableIsRectangular) {
  const DeviceProfile device = load_profile(kDefaultProfile);
  for (const Reproduction& r : olla_reproductions()) {
    if (std::string(r.name) != "olla-fig8") continue;  // the others are as long and alike
    for (const ReproducedTable& table : r.make(device)) {
      EXPECT_FALSE(table.rows.empty());
      for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size()) << r.name;
    }
  }
}

}  // namespace
}  // namespace pal
