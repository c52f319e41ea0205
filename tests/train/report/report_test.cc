// report.html: well formed, self-contained, escaped; and the arithmetic of its charts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/train/report/count.h"
#include "train/report/report_chart.h"
#include "train/report/report_html.h"

namespace pal {
namespace {

RunReport report() {
  return {.name = "a <b>",
          .state = "max_epochs",
          .described = {"corpus & words"},
          .plan = {"plan   12 nodes"},
          .bytes = {{"weight", 600}, {"feature_map", 300}},
          .arena_bytes = 1000,
          .lower_bound_bytes = 900,
          .config = "train:\n  lr: 0.1\n",
          .samples = {{"<script>alert(1)</script>", "it's \"so\" \xC3\xA4"}}};
}

std::string metrics(int steps) {
  std::string text;
  for (int i = 1; i <= steps; ++i) {
    const std::string n = std::to_string(i);
    text += R"({"event":"step","step":)" + n + R"(,"epoch":0.5,"loss":)" + n +
            R"(,"lr":0.001,"tokens_per_s":5000})"
            "\n";
    if (i % 5 != 0) continue;
    text += R"({"event":"valid","step":)" + n + R"(,"epoch":0.5,"loss":2.5,"bleu":)" + n + ".25}\n";
  }
  return text;
}

// Every tag that is opened is closed, in order.
void expect_balanced(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    if (tag[0] == '!' || tag.back() == '/' || tag.starts_with("meta")) continue;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ(open.back(), tag.substr(1)) << page.substr(at, 200);
      open.pop_back();
    } else {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(Report, TheBestPerplexityIsTheLeast) {
  std::string rows;
  for (const char* value : {"2381.75", "1351.5", "2030.25"}) {
    rows += R"({"event":"valid","step":1,"epoch":0.5,"loss":2.5,"perplexity":)" +
            std::string(value) + "}\n";
  }
  const std::string page = report_html(report(), rows);
  EXPECT_NE(page.find("1351.5"), std::string::npos);
  EXPECT_EQ(page.find("2381.75</"), std::string::npos);
}

TEST(Report, IsOneWellFormedPageThatNeedsNoNetworkAndNoScript) {
  const std::string page = report_html(report(), metrics(100));
  expect_balanced(page);
  for (const char* outside : {"http:", "https:", "src=", "<script", "url(", "@import"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(page.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(page.find("a &lt;b&gt;"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)"), std::string::npos);
  EXPECT_NE(page.find("it&#39;s &quot;so&quot; \xC3\xA4"), std::string::npos);
  EXPECT_NE(page.find("ended: max epochs"), std::string::npos);
  EXPECT_NE(page.find("100.25"), std::string::npos);  // the best of BLEU
  EXPECT_NE(page.find("lost to packing"), std::string::npos);
  EXPECT_EQ(count(page, "<svg"), 4u);
}

TEST(Report, TheProcessStandsBesideThePlan) {
  RunReport r = report();
  EXPECT_EQ(report_html(r, metrics(1)).find("whole process"), std::string::npos);
  r.run_bytes = 1500, r.process_peak_bytes = 2500;
  const std::string page = report_html(r, metrics(1));
  for (const char* shown : {"1.00 kB", "1.50 kB", "2.50 kB", "whole process"}) {
    EXPECT_NE(page.find(shown), std::string::npos) << shown;
  }
}

TEST(Report, SparsePlansHaveALineEach) {
  RunReport r = report();
  EXPECT_EQ(report_html(r, metrics(1)).find("Sparse maps"), std::string::npos);
  r.sparse = {"train/1x1/only: 3 maps are kept sparse since run 21, 2 MB -> 1 MB",
              "train/2x2/only: no map is kept sparse"};
  const std::string page = report_html(r, metrics(1));
  expect_balanced(page);
  EXPECT_EQ(count(page, "Sparse maps, train/"), 2u);
  EXPECT_NE(page.find("2 MB -&gt; 1 MB"), std::string::npos);
}

TEST(Report, TestFiguresComeFirst) {
  RunReport r = report();
  r.test = {{"bleu", 33.333}, {"loss", 1.5}};
  const std::string page = report_html(r, metrics(10));
  EXPECT_NE(page.find("33.33"), std::string::npos);
  EXPECT_NE(page.find("test BLEU"), std::string::npos);
  EXPECT_NE(page.find("Samples of test data"), std::string::npos);
}

TEST(Report, StandsWithoutRowsAndWithTornOnes) {
  expect_balanced(report_html(report(), ""));
  EXPECT_EQ(count(report_html(report(), ""), "nothing measured yet"), 4u);
  const std::string torn = metrics(3) + R"({"event":"step","st)" + "\n[1]\n" +
                           R"({"event":"step","step":4,"loss":null})"
                           "\n" +
                           R"({"event":"st)";
  const std::string page = report_html(report(), torn);
  expect_balanced(page);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(count(page, "nothing measured yet"), 1u);  // of validations
}

TEST(Report, WhatIsNoRowIsPassedOver) {
  const std::string rows = R"({"event":"step","step":"3","loss":1})"
                           "\n"
                           R"({"event":"step","step":1e300,"loss":1})"
                           "\n"
                           R"({"event":"step","step":-1,"loss":1})"
                           "\n";
  EXPECT_EQ(report_html(report(), rows), report_html(report(), ""));
}

TEST(Report, LongRunsMakeNoLongPages) {
  EXPECT_LT(report_html(report(), metrics(20000)).size(), 100'000u);
}

TEST(Chart, TicksAreRoundAndInside) {
  EXPECT_EQ(axis_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(axis_ticks(3, 7.9, 5), (std::vector<double>{3, 4, 5, 6, 7}));
  EXPECT_EQ(axis_ticks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(axis_ticks(5, 5, 4), std::vector<double>{5});
  // One more than such a number is the number itself.
  EXPECT_LE(axis_ticks(1e300, 1e300 * (1 + 1e-15), 5).size(), 7u);
  EXPECT_LE(axis_ticks(9e18, 9e18 + 4096, 5).size(), 7u);
}

TEST(Chart, SmoothingKeepsConstants) {
  std::vector<std::pair<double, double>> line, level;
  for (int i = 0; i < 100; ++i) line.emplace_back(i, 2 * i), level.emplace_back(i, 7);
  for (auto& [x, y] : smoothed(level, 12)) EXPECT_NEAR(y, 7, 1e-12);
  EXPECT_LT(smoothed(line, 12)[99].second, 198);
}

TEST(Chart, DrawsOnePointAndLevelLines) {
  for (const auto& points : {std::vector<std::pair<double, double>>{{3, 5}},
                             std::vector<std::pair<double, double>>{{1, 0}, {2, 0}}}) {
    for (bool zero : {false, true}) {
      const std::string svg = chart_html({"t", "u", {{"", "one", points, true}}, zero});
      EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
      EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
      EXPECT_EQ(count(svg, "<circle"), points.size());
    }
  }
}

}  // namespace
}  // namespace pal
