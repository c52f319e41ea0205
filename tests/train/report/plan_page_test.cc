// The plan's page: well formed and self-contained; its pictures draw every value where the plan
// puts it, and its bytes add up.
#include "train/report/plan_page.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "core/builder.h"
#include "memory/plan/report.h"
#include "ops/elementwise/activations.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "tests/train/report/count.h"
#include "train/report/plan_pictures.h"

namespace pal {
namespace {

// Three layers, forward and backward.
Compiled compiled() {
  Builder b;
  Val x = b.input("x", {{8, 16}});
  std::vector<Val> weights;
  for (int layer = 0; layer < 3; ++layer) {
    Builder::Within scope(b, "layer" + std::to_string(layer));
    weights.push_back(b.weight("w", {{16, 16}}, {Init::Kind::uniform, 0.1f}));
    x = tanh(matmul(x, weights.back()));
  }
  Val loss = sum_all(x);
  b.output("loss", loss);
  const std::vector<Val> gradients = differentiate(b, loss, weights);
  for (size_t i = 0; i < gradients.size(); ++i) b.output("g" + std::to_string(i), gradients[i]);
  Program program = b.take();
  const StateLayout layout(program);
  KernelCache cache(cpu_device(1));
  return compile(std::move(program), cache, layout);
}

TEST(PlanPage, IsSelfContainedAndBalanced) {
  const Compiled c = compiled();
  const std::string page = plan_html(c, {.name = "a <b>", .what = "bucket 3,4", .config = "x: 1"});
  for (const char* outside : {"http:", "https:", "src=", "<script", "url(", "@import", "a <b>"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  for (const char* tag : {"div", "table", "tr", "td", "svg", "section", "title", "rect", "g"}) {
    const std::string name = tag;
    EXPECT_EQ(count(page, "<" + name + ">") + count(page, "<" + name + " "),
              count(page, "</" + name + ">"))
        << tag;
  }
  EXPECT_NE(page.find("bucket 3,4"), std::string::npos);
  for (const PassReport& pass : c.passes) EXPECT_NE(page.find(pass.name), std::string::npos);
}

TEST(PlanPage, TheArenaHasARectangleForEveryValueHeld) {
  const Compiled c = compiled();
  const PlanView view(c);
  size_t on_device = 0;
  for (const Held& h : view.held) on_device += c.storages[h.storage].space == Space::device;
  EXPECT_GT(on_device, c.storages.list.size() / 2);
  EXPECT_EQ(count(arena_picture(view), "<rect"), on_device);
}

// Addresses upwards from the ground at 436, 420 units for the whole arena.
TEST(PlanPage, RectanglesStandAtTheirAddresses) {
  const Compiled c = compiled();
  const PlanView view(c);
  const std::string picture = arena_picture(view);
  const double unit = 420 / double(c.plan.device().bytes);
  size_t at = 0;
  for (const Held& h : view.held) {
    if (c.storages[h.storage].space != Space::device) continue;
    at = picture.find("<rect", at + 1);
    ASSERT_NE(at, std::string::npos);
    double x = 0, y = 0, width = 0, height = 0;
    ASSERT_EQ(
        std::sscanf(picture.c_str() + at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"",
                    &x, &y, &width, &height),
        4);
    const double low = double(c.plan.offset[size_t(h.storage)]) * unit;
    EXPECT_NEAR(y + height, 436 - low, 0.2);
    EXPECT_NEAR(height, double(footprint(c.storages[h.storage])) * unit, 0.2);
    const std::string nodes = ", nodes " + std::to_string(h.begin / 2) + " to " +
                              std::to_string((h.end - 1) / 2) + "</title>";
    const size_t end = picture.find("</title>", at) + 8;
    EXPECT_EQ(picture.substr(end - nodes.size(), nodes.size()), nodes);
  }
}

TEST(PlanPage, HeldValuesFollowEachOtherWithoutGaps) {
  const Compiled c = compiled();
  const auto lifetimes = lifetimes_of(c.program, c.storages);
  std::vector<int64_t> at(lifetimes.size(), -1);
  for (const Held& h : held_values(c.program, c.storages, lifetimes)) {
    const size_t s = size_t(h.storage);
    EXPECT_EQ(h.begin, at[s] < 0 ? lifetimes[s].begin : at[s]);
    EXPECT_LT(h.begin, h.end);
    at[s] = h.end;
  }
  for (size_t s = 0; s < at.size(); ++s) {
    if (lifetimes[s].begin < lifetimes[s].end) {
      EXPECT_EQ(at[s], lifetimes[s].end);
    }
  }
}

TEST(PlanPage, TheTimelineIsLiveBytesByRole) {
  const Compiled c = compiled();
  const auto lifetimes = lifetimes_of(c.program, c.storages);
  const std::vector<int64_t> live = live_bytes(c.program, c.storages, lifetimes);
  const auto held = held_values(c.program, c.storages, lifetimes);
  const Timeline all = timeline_of(c.program, c.storages, held, 1 << 20);
  ASSERT_EQ(all.columns.size(), live.size());
  for (size_t m = 0; m < live.size(); ++m) {
    const auto& column = all.columns[m];
    EXPECT_EQ(column.bytes, live[m]) << m;
    EXPECT_EQ(std::accumulate(column.by_role.begin(), column.by_role.end(), int64_t{0}), live[m]);
  }
  const Timeline few = timeline_of(c.program, c.storages, held, 3);
  ASSERT_EQ(few.columns.size(), 3u);
  int64_t most = 0;
  for (auto& column : few.columns) most = std::max(most, column.bytes);
  EXPECT_EQ(most, peak_of(c.storages, lifetimes).bytes);
}

}  // namespace
}  // namespace pal
