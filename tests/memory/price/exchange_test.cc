// Exchanges between ranks: their price by hand, and how much of it a step waits for.
#include "ops/exchange/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "core/builder.h"
#include "memory/price/exchange_times.h"
#include "memory/price/links.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"

namespace pal::test {
namespace {

// 0.5 GB/s of what is printed on it, 1 us a message.
Link slow() { return {.name = "slow", .rate = 1e9, .latency = 1e-6, .efficiency = 0.5}; }
Link slower() { return {.name = "slower", .rate = 1e8, .latency = 1e-5, .efficiency = 1}; }

TEST(Exchange, ARingOfOneNode) {
  const Links four{.ranks = 4, .per_node = 4, .inside = slow()};
  // A gather of 4 MB: three quarters are sent, in three messages. A reduction: twice that.
  EXPECT_NEAR(exchange_seconds(3e6, 4e6, four), 3e-6 + 3e6 / 5e8, 1e-15);
  EXPECT_NEAR(exchange_seconds(6e6, 4e6, four), 6e-6 + 6e6 / 5e8, 1e-15);
  EXPECT_EQ(exchange_seconds(0, 4e6, four), 0);
  EXPECT_EQ(exchange_seconds(0, 4e6, {}), 0) << "one rank";
}

TEST(Exchange, NodesSumInsideFirst) {
  // 8 MB summed on two nodes of four: inside each rank sends 3/4 of it (6 MB, three messages), and
  // of the quarter that it holds then one half to the other node (1 MB, one message).
  const Links eight{.ranks = 8, .per_node = 4, .inside = slow(), .between = slower()};
  EXPECT_NEAR(exchange_seconds(7e6, 8e6, eight), 3e-6 + 6e6 / 5e8 + 1e-5 + 1e6 / 1e8, 1e-12);
  // Of nodes of one device all goes between.
  const Links apart{.ranks = 8, .per_node = 1, .inside = {}, .between = slower()};
  EXPECT_NEAR(exchange_seconds(7e6, 8e6, apart), 7e-5 + 7e6 / 1e8, 1e-12);
}

// The two exchanges of a sum by levels, beside what the formula says of both.
TEST(Exchange, LevelsAddUp) {
  const Links eight{.ranks = 8, .per_node = 4, .inside = slow(), .between = slower()};
  const double inside = exchange_seconds(6e6, 8e6, among(eight, 4, 0));
  const double between = exchange_seconds(1e6, 2e6, among(eight, 0, 2));
  EXPECT_NEAR(inside, 3e-6 + 6e6 / 5e8, 1e-12);
  EXPECT_NEAR(between, 1e-5 + 1e6 / 1e8, 1e-12);
  EXPECT_NEAR(inside + between, exchange_seconds(7e6, 8e6, eight), 1e-12);
  // One link, measured over all: it joins machines too.
  const Links four{.ranks = 4, .per_node = 4, .inside = slow()};
  EXPECT_NEAR(exchange_seconds(1e6, 2e6, among(four, 0, 2)), 1e-6 + 1e6 / 5e8, 1e-12);
}

// Where each sends to each, what leaves a machine of 2 of 4 ranks are 2 of 3 pieces, two messages.
TEST(Exchange, ToEachIsNoLevels) {
  const Links four{.ranks = 4, .per_node = 2, .inside = slow(), .between = slower()};
  EXPECT_NEAR(seconds_to_each(3e6, four), 1e-6 + 1e6 / 5e8 + 2e-5 + 2e6 / 1e8, 1e-12);
  const Links one{.ranks = 4, .per_node = 4, .inside = slow()};
  EXPECT_NEAR(seconds_to_each(3e6, one), exchange_seconds(3e6, 4e6, one), 1e-12);
  Builder b;
  b.output("y", all_to_all({b.input("x", {{1 << 20}})}, 4)[0]);
  const Program p = b.take();
  const DeviceProfile toy{.name = "toy",
                          .f32 = 1e15,
                          .vector = 1e15,
                          .memory = 1e18,
                          .links = std::make_shared<const Links>(four)};
  EXPECT_NEAR(predict(p, toy).step_ms, 1e3 * seconds_to_each(3.0 * (1 << 20), four), 1e-6);
}

DeviceProfile device(const Links& links) {
  return {.name = "toy",
          .f32 = 1e12,
          .vector = 1e11,
          .memory = 1e12,
          .launch = 1e-6,
          .links = std::make_shared<const Links>(links)};
}

Program reduction(int64_t elements, int64_t ranks) {
  Builder b;
  b.output("y", all_reduce({tanh(b.input("x", {{elements}}))}, ranks)[0]);
  return b.take();
}

TEST(Exchange, ANodesPriceIsItsLinkBytes) {
  const Links four{.ranks = 4, .per_node = 4, .inside = slow()};
  const Program p = reduction(1 << 20, 4);
  DeviceProfile d = device(four);
  const double sent = 2 * 0.75 * 4 * (1 << 20);
  const Prediction out = predict(p, d);
  EXPECT_EQ(out.link_bytes, sent);
  EXPECT_NEAR(out.node_ms.at(1), 1e3 * (6e-6 + sent / 5e8 + 1e-6), 1e-9);
  EXPECT_NEAR(out.step_ms, out.node_ms.at(0) + out.node_ms.at(1), 1e-9);
  // Memory that is slower than the link is what counts; without links it is all there is.
  d.memory = 1e8;
  EXPECT_NEAR(predict(p, d).node_ms.at(1), 1e3 * (2.0 * 4 * (1 << 20) / 1e8 + 1e-6), 1e-6);
  d.memory = 1e12, d.links = nullptr;
  EXPECT_NEAR(predict(p, d).node_ms.at(1), 1e3 * (2.0 * 4 * (1 << 20) / 1e12 + 1e-6), 1e-9);
}

TEST(Exchange, MoreOfALinkIsNeverSlower) {
  std::mt19937 random(7);
  const auto between = [&](double lo, double hi) {
    return std::uniform_real_distribution<double>(lo, hi)(random);
  };
  for (int i = 0; i < 200; ++i) {
    const int64_t per_node = 1 << (random() % 4), nodes = 1 + int64_t(random() % 5);
    Links links{.ranks = nodes * per_node,
                .per_node = per_node,
                .inside = {"", between(1e8, 1e11), between(0, 1e-4), between(0.1, 1)},
                .between = {"", between(1e8, 1e11), between(0, 1e-4), between(0.1, 1)}};
    const Program p = reduction(1 + int64_t(random() % 100000), links.ranks);
    const double before = predict(p, device(links)).step_ms;
    Link& one = random() % 2 ? links.inside : links.between;
    switch (random() % 3) {
      case 0: one.rate *= between(1, 10); break;
      case 1: one.latency *= between(0, 1); break;
      default: one.efficiency += (1 - one.efficiency) * between(0, 1);
    }
    EXPECT_LE(predict(p, device(links)).step_ms, before) << i;
  }
}

TEST(ExchangeTimes, OnOneQueueNothingIsHidden) {
  Builder b;
  Val a = tanh(b.input("x", {{8}}));      // 0: 1 ms
  Val sum = all_reduce({a}, 2)[0];        // 1: 5 ms
  b.output("y", pal::add(sum, tanh(a)));  // 2: 2 ms, 3: 1 ms
  Program p = b.take();
  Prediction times;
  for (const double ms : {1.0, 5.0, 2.0, 1.0}) times.node_ms.push_back(ms);
  ExchangeTimes out = exchange_times(p, times);
  EXPECT_EQ(out.count, 1);
  EXPECT_EQ(out.ms, 5);
  EXPECT_EQ(out.exposed_ms, 5);
  // Beside the second node: two of five are hidden.
  p.node(1).queue = 1, p.node(1).waits = {0}, p.node(3).waits = {1};
  out = exchange_times(p, times);
  EXPECT_EQ(out.ms, 5);
  EXPECT_EQ(out.exposed_ms, 3);
}

TEST(ExchangeTimes, OfNoneNothingIsSpent) {
  Builder b;
  b.output("y", tanh(tanh(b.input("x", {{8}}))));
  const Program p = b.take();
  Prediction times;
  for (const double ms : {2.0, 3.0}) times.node_ms.push_back(ms);
  const ExchangeTimes out = exchange_times(p, times);
  EXPECT_EQ(out.count, 0);
  EXPECT_EQ(out.exposed_ms, 0);
}

}  // namespace
}  // namespace pal::test
