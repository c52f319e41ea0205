// Curves of any number of points, and rows that are read as they come.
#include "train/report/run_curves.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/files.h"

namespace pal {
namespace {

TEST(RunCurves, KeepMeansOfNeighboursAndWhatIsSaidOfAll) {
  Curve line;
  for (int i = 0; i < 100'000; ++i) {
    line.add(i, 3.0 * i);
    if (i + 1 == int(Curve::kMost)) {  // not one is merged yet
      ASSERT_EQ(line.points().size(), Curve::kMost);
      EXPECT_EQ(line.points()[399], (std::pair<double, double>{399, 1197}));
    }
    ASSERT_LE(line.points().size(), Curve::kMost);
  }
  EXPECT_GT(line.points().size(), Curve::kMost / 2);
  // The first is of the first 256 or 512, and neighbours are as far apart.
  const double apart = line.points()[1].first - line.points()[0].first;
  EXPECT_NEAR(line.points()[0].first, (apart - 1) / 2, 1e-6);
  for (auto& [x, y] : line.points()) EXPECT_NEAR(y, 3 * x, 1e-6);
  EXPECT_NEAR(line.points().back().first, 99'999, apart);
  EXPECT_EQ(line.count(), 100'000);
  EXPECT_NEAR(line.mean(), 1.5 * 99'999, 1e-3);
  EXPECT_EQ(line.lowest(), 0);
  EXPECT_EQ(line.highest(), 3 * 99'999);
  EXPECT_EQ(line.last(), 3 * 99'999);
}

TEST(RunCurves, HugeNumbersHaveMeans) {
  Curve curve;
  for (int i = 0; i < 1000; ++i) curve.add(i, 1.7e308);
  EXPECT_NEAR(curve.mean() / 1.7e308, 1, 1e-9);
  for (auto& [x, y] : curve.points()) EXPECT_NEAR(y / 1.7e308, 1, 1e-9);
}

std::string step_row(int step) {
  return R"({"event":"step","step":)" + std::to_string(step) +
         R"(,"epoch":0.5,"loss":2,"lr":0.1,"tokens_per_s":7})";
}

// What follows a file as it grows says the same as what reads it at once, and reads no row twice.
TEST(RunCurves, FollowAFile) {
  const TemporaryFolder dir;
  const std::filesystem::path file = dir.path() / "metrics.jsonl";
  RunCurves curves;
  curves.follow(file);  // is not there yet
  EXPECT_EQ(curves.loss.count(), 0);
  std::ofstream out(file, std::ios::binary);
  out << step_row(1) << "\n" << step_row(2).substr(0, 20) << std::flush;
  curves.follow(file);
  EXPECT_EQ(curves.loss.count(), 1);
  out << step_row(2).substr(20) << std::flush;  // its end is not there yet
  curves.follow(file);
  EXPECT_EQ(curves.loss.count(), 1);
  out << "\n[1]\n"
      << R"({"event":"valid","step":2,"epoch":1,"loss":3,"bleu":5})"
      << "\n";
  out << std::flush;
  for (int again = 0; again < 2; ++again) curves.follow(file);
  EXPECT_EQ(curves.loss.count(), 2);
  EXPECT_EQ(curves.valid_loss.last(), 3);
  EXPECT_EQ(curves.metrics.at("bleu").highest(), 5);
  EXPECT_EQ(curves.step, 2);
  EXPECT_EQ(curves.epoch, 1);
  RunCurves whole;
  std::ifstream in(file, std::ios::binary);
  whole.read(in);
  EXPECT_EQ(whole.loss.points(), curves.loss.points());
  EXPECT_EQ(whole.metrics.at("bleu").points(), curves.metrics.at("bleu").points());
}

}  // namespace
}  // namespace pal
