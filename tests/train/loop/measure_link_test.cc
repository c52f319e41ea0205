// What joins ranks, measured over threads whose exchanges take a known time.
#include "train/loop/measure_link.h"

#include <gtest/gtest.h>

#include "tests/support/held_link.h"
#include "tests/support/thread_group.h"

namespace pal::test {
namespace {

TEST(MeasureLink, FindsTheLatencyAndTheRate) {
  for (const int ranks : {2, 3}) {
    std::mutex mutex;
    std::vector<Link> links;
    as_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
      HeldLink slow(group, 2e8, 2e-3);
      const Link link = measure_link(slow, {.seconds = 0.1});
      const std::lock_guard lock(mutex);
      links.push_back(link);
    });
    for (const Link& link : links) {
      EXPECT_EQ(link.name, "held, " + std::to_string(ranks) + " ranks");
      EXPECT_EQ(link.rate, links[0].rate) << "all ranks have the same";
      EXPECT_EQ(link.latency, links[0].latency);
      // Sleep and threads take longer, never less; other programs may run beside the test.
      EXPECT_GE(link.latency, 2e-3);
      EXPECT_LT(link.latency, 2e-2);
      EXPECT_LT(link.rate, 2.2e8);
      EXPECT_GT(link.rate, 2e7);
    }
  }
}

}  // namespace
}  // namespace pal::test
