// Jobs each with its own memory: pages that come and go, and what that costs.
#include "memory/share/unshared.h"

#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "memory/compile.h"
#include "tests/memory/share/shapes.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

constexpr int64_t kPage = 1000;
constexpr double kLink = 1e6;  // a page a millisecond

using Pages = std::vector<std::vector<const StepPages*>>;

TEST(Unshared, ThePageUsedLongestAgoMakesRoom) {
  const StepPages a{3, {{{0, 2}}, {{2, 3}}, {{0, 1}}}};
  const StepPages b{2, {{{0, 1}}, {{1, 2}}}};
  PagedMemory memory(Pages{{&a}, {&b}}, 3 * kPage + 999, kLink, kPage);
  EXPECT_EQ(memory.fetch_ms(0, 0, 0), 0) << "what was never there need not come";
  EXPECT_EQ(memory.fetch_ms(0, 0, 1), 0);
  EXPECT_EQ(memory.fetch_ms(0, 0, 2), 0);  // used last: a1, a2, a0
  EXPECT_EQ(memory.fetch_ms(1, 0, 0), 1) << "a1 goes out";
  EXPECT_EQ(memory.fetch_ms(1, 0, 1), 1) << "a2 goes out";
  EXPECT_EQ(memory.fetch_ms(0, 0, 2), 0) << "a0 is there still";
  EXPECT_EQ(memory.fetch_ms(0, 0, 1), 2) << "b0 goes out, a2 comes back";
  EXPECT_EQ(memory.fetch_ms(0, 0, 0), 2) << "of a0 and a1 one is missing; b1 goes out";
  EXPECT_EQ(memory.moved_out(), 4 * kPage);
  EXPECT_EQ(memory.moved_in(), 2 * kPage);
  EXPECT_THROW(PagedMemory(Pages{{&a}}, kPage - 1, kLink, kPage), ProgramError);
}

// Pages of a step are those of what its nodes read, write and use as scratch, at their addresses.
TEST(Unshared, ANodeTouchesThePagesOfItsValues) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Program step = random_network(seed, {.layers = 6, .batch = 32, .width = 32});
    KernelCache cache{Device{}};
    const Compiled c = compile(step, cache, StateLayout(step), CompileOptions{});
    const StepPages pages = step_pages(c.program, c.storages, c.plan, 512);
    EXPECT_EQ(pages.pages, (c.plan.device().bytes + 511) / 512);
    size_t i = 0;
    for (NodeId n : c.program.nodes.ids()) {
      const Node& node = c.program.node(n);
      if (node.queue != kComputeQueue) continue;
      std::set<int64_t> expected, found;
      const auto add = [&](StorageId s, int64_t offset, int64_t bytes) {
        if (c.storages[s].space != Space::device) return;
        const int64_t from = c.plan.offset[s] + offset;
        for (int64_t at = from; at < from + bytes; ++at) expected.insert(at / 512);
      };
      for (const auto* side : {&node.in, &node.out}) {
        for (ValueId v : present(*side)) {
          add(c.storages.of[v], c.storages.offset[v], c.program.value(v).spec.bytes());
        }
      }
      for (StorageId s : c.storages.list.ids()) {
        if (c.storages[s].workspace_of == n) add(s, 0, c.storages[s].bytes);
      }
      ASSERT_LT(i, pages.touched.size());
      for (const auto& [begin, end] : pages.touched[i++]) {
        for (int32_t p = begin; p < end; ++p) EXPECT_TRUE(found.insert(p).second) << "twice";
      }
      EXPECT_EQ(found, expected) << "seed " << seed << " node " << n;
      EXPECT_TRUE(found.empty() || *found.rbegin() < pages.pages);
    }
    EXPECT_EQ(i, pages.touched.size());
  }
}

SimulatedRun together(const StepShape& shape, const StepPages& pages, int64_t room, double ms) {
  PagedMemory memory(Pages{{&pages}, {&pages}}, room * kPage, kLink, kPage);
  const auto gate = open_gate();
  return simulate({{.programs = {&shape}}, {.programs = {&shape}}}, *gate, ms, {.memory = &memory});
}

TEST(Unshared, WhatFitsIsAsFastAsBesideEachOther) {
  const StepShape shape = step_like({.launch_ms = 0.5, .work_ms = 1, .units = 0.5}, 4);
  const StepPages pages{4, {{{0, 1}}, {{1, 2}}, {{2, 3}}, {{3, 4}}}};
  const SimulatedRun run = together(shape, pages, 8, 240);
  for (const double rate : run.rate) EXPECT_NEAR(rate, 1, 1e-9);
}

// Four pages each in room for seven: whoever comes round again finds that its page has just left.
// The link is never idle: 2 ms for a node of each, so that a node and the next are 4 ms apart.
TEST(Unshared, WhatDoesNotFitGoesRoundOverTheLink) {
  const StepShape shape = step_like({.work_ms = 1, .units = 0.5}, 4);
  const StepPages pages{4, {{{0, 1}}, {{1, 2}}, {{2, 3}}, {{3, 4}}}};
  const SimulatedRun run = together(shape, pages, 7, 4000);
  for (const double rate : run.rate) EXPECT_NEAR(rate, 1. / 4, 2e-3);
  EXPECT_FALSE(run.stuck);
}

// What a node waits for is no progress of its step, and is not scaled by the job's speed.
TEST(Unshared, TheLinkDoesNotKnowHowFastTheJobIs) {
  const StepShape shape = step_like({.work_ms = 2, .units = 0.1}, 2);
  const StepPages pages{2, {{{0, 1}}, {{1, 2}}}};
  PagedMemory memory(Pages{{&pages}}, kPage, kLink, kPage);
  const auto gate = open_gate();
  const SimulatedRun run =
      simulate({{.programs = {&shape}, .speed = 2}}, *gate, 600, {.memory = &memory});
  EXPECT_NEAR(run.rate[0], 2. / 3, 1e-2) << "2 ms of the link and 1 ms of work a node";
}

}  // namespace
}  // namespace pal::test
