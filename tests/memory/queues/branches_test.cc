// Branches of a step on two queues: the same bits, in a plan that waits for all it needs and for
// nothing else.
#include "memory/queues/branches.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/order.h"
#include "core/verify.h"
#include "memory/branch_queue.h"
#include "memory/pass.h"
#include "memory/plan/plan.h"
#include "memory/price/side_by_side.h"
#include "memory/queues/waits.h"
#include "memory/storages/lifetimes.h"
#include "ops/tensors/state.h"
#include "ops/tensors/views.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/running.h"
#include "tests/support/random_network.h"
#include "tests/support/two_directions.h"

namespace pal::test {
namespace {

constexpr NodeId kAnyAhead = 1 << 30;

ByNode<NodeDemand> each_like(const Program& p, const NodeDemand& demand) {
  ByNode<NodeDemand> out;
  for (size_t i = 0; i < p.nodes.size(); ++i) out.push_back(demand);
  return out;
}

// Two chains of so many nodes whose ends are added.
Program added_chains(int nodes) {
  Builder b;
  Val x = b.input("x", {{8}}), y = b.input("y", {{8}});
  for (int i = 0; i < nodes; ++i) x = tanh(x);
  for (int i = 0; i < nodes; ++i) y = tanh(y);
  b.output("z", add(x, y));
  return b.take();
}

std::vector<int> queues_in_order(const Program& p, const std::vector<NodeId>& order) {
  std::vector<int> out(order.size());
  for (NodeId n : p.nodes.ids()) out[size_t(order[size_t(n)])] = p.node(n).queue;
  return out;
}

TEST(Branches, AChainStaysOnItsQueue) {
  const Program p = added_chains(4);
  const Branched b =
      with_branches(p, each_like(p, {.launch_ms = 1, .work_ms = 1, .units = 0.1}), kAnyAhead);
  EXPECT_EQ(queues_in_order(b.program, b.order), (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 1}));
  int waits = 0;
  for (const Node& node : b.program.nodes) waits += int(node.waits.size());
  EXPECT_EQ(waits, 1);  // of the sum
  const SideBySide run =
      run_side_by_side(b.program, each_like(p, {.launch_ms = 1, .work_ms = 1, .units = 0.1}));
  EXPECT_NEAR(run.ms, 10, 1e-9);  // of 18
}

// A view behind the last sum takes no time.
TEST(Branches, TheLastNodesMayTakeNoTime) {
  Builder b;
  Val x = b.input("x", {{64, 64}}), y = b.input("y", {{64, 64}});
  for (int i = 0; i < 6; ++i) x = tanh(x), y = tanh(y);
  b.output("z", reshape(add(x, y), {4096}));
  const Program p = b.take();
  ByNode<NodeDemand> demands = each_like(p, {.work_ms = 1, .units = 0.1});
  demands[p.nodes.size() - 1] = {};
  const Branched branched = with_branches(p, demands, kAnyAhead);
  EXPECT_EQ(branched.order.size(), p.nodes.size());
  ByNode<NodeDemand> in_order;
  for (NodeId n : branched.order) in_order.push_back(demands[n]);
  EXPECT_NEAR(run_side_by_side(branched.program, in_order).ms, 7, 1e-9);
}

// The second chain begins when so little is left of the first.
TEST(Branches, NoQueueIsFurtherAheadThanItMayBe) {
  const Program p = added_chains(20);
  for (const NodeId ahead : {NodeId(0), NodeId(4), NodeId(30)}) {
    const Branched b = with_branches(p, each_like(p, {.work_ms = 1}), ahead);
    EXPECT_NO_THROW(verify(b.program));
    std::vector<char> begun(p.nodes.size(), 0);
    NodeId first{0}, most{0};
    for (NodeId n : b.order) {
      most = std::max(most, NodeId(n - first));
      begun[size_t(n)] = 1;
      while (first < p.node_count() && begun[size_t(first)]) ++first;
    }
    EXPECT_LE(most, ahead);
    const double ms =
        run_side_by_side(b.with_held(), each_like(p, {.work_ms = 1, .units = 0.1})).ms;
    EXPECT_NEAR(ms, ahead == 0 ? 40 : ahead == 4 ? 36 : 21, 1e-9);
  }
}

// The writer of state waits for who reads a view of the old value on the other queue.
TEST(Branches, WhoWritesStateWaitsForReadersOfViews) {
  Builder b;
  const Val w = b.state("w", {{4, 6}}, Role::weight);
  Val y = b.input("y", {{24}});
  for (int i = 0; i < 3; ++i) y = tanh(y);
  b.output("y", mul(reshape(w, {24}), y));
  Val x = b.input("x", {{4, 6}});
  for (int i = 0; i < 9; ++i) x = tanh(x);
  assign(w, x);
  const Program p = b.take();
  const Branched branched = with_branches(p, each_like(p, {.work_ms = 1}), kAnyAhead);
  EXPECT_NO_THROW(verify(branched.program));
  const Node& writer = branched.program.node(branched.program.value(p.state[0].end).producer);
  const NodeId reader = branched.program.value(p.output("y")).producer;
  EXPECT_NE(writer.queue, branched.program.node(reader).queue);
  EXPECT_EQ(std::count(writer.waits.begin(), writer.waits.end(), reader), 1);
}

// Random steps laid out with random times: all checks pass, and every wait is for something.
TEST(Branches, RandomStepsKeepTheirBitsAndNeedEveryWait) {
  KernelCache cache{Device{}};
  int waits = 0, for_bytes = 0, beside = 0;
  for (uint64_t seed = 0; seed < networks_asked(30); ++seed) {
    const Program p = seed % 5 == 4 ? two_directions(3 + int64_t(seed % 4)) : random_network(seed);
    const StateLayout layout(p);
    ByNode<NodeDemand> demands, in_order;
    for (NodeId n : p.nodes.ids()) {
      demands.push_back({.launch_ms = 0.1, .work_ms = double((n * 7919 + NodeId(seed)) % 13)});
    }
    const Branched b = with_branches(p, demands, seed % 3 ? kAnyAhead : NodeId(12));
    ASSERT_NO_THROW(verify(b.program)) << "seed " << seed;
    for (NodeId n : b.order) in_order.push_back(demands[n]);
    const SideBySide run = run_side_by_side(b.with_held(), in_order);
    Compiled c;
    const Program timed = in_time(b.program, run, seed % 2 ? 1 : 8);
    c.program = timed;
    c.kernels = prepare_all(c.program, cache);
    c.storages = assign_storages(c.program, workspace_bytes(c.kernels));
    c.plan = make_plan(c.program, c.storages, layout);
    c.program = with_waits_for_bytes(b.program, run, timed, c.storages, c.plan);
    ASSERT_NO_THROW(verify(c.program)) << "seed " << seed;
    ASSERT_NO_THROW(check_plan(c.program, c.storages, c.plan)) << "seed " << seed;
    beside += queue_count(c.program) == 2;
    for (NodeId n : c.program.nodes.ids()) {
      if (c.program.node(n).waits.empty()) continue;
      ASSERT_EQ(c.program.node(n).waits.size(), 1u);
      Program lost = c.program;
      lost.node(n).waits.clear();
      const bool by_verify = !message_of([&] { verify(lost); }).empty();
      const bool by_plan = !message_of([&] { check_plan(lost, c.storages, c.plan); }).empty();
      EXPECT_TRUE(by_verify || by_plan) << "seed " << seed << ", node " << n;
      ++waits, for_bytes += by_plan && !by_verify;
    }
    Compiled plain;
    plain.program = p, plain.kernels = prepare_all(p, cache);
    plain.storages = assign_storages(p, workspace_bytes(plain.kernels));
    plain.plan = make_plan(p, plain.storages, layout);
    const Bits expected = bits_of(plain);
    for (int again = 0; again < 3; ++again) {  // two threads, never at the same times
      ASSERT_EQ(difference_of(p, expected, bits_of(c)), "") << "seed " << seed;
    }
  }
  EXPECT_GT(beside, 20);
  EXPECT_GT(waits, 300);
  EXPECT_GT(for_bytes, 30);
}

class BranchQueue : public testing::Test {
 protected:
  BranchQueue() {
    two_.branch_device = launching_card();
    two_.profile = one_.profile = launching_card();
  }
  Compiled made(const CompileOptions& options) {
    return compile(program_, cache_, StateLayout(program_), options);
  }
  static std::string note(const Compiled& c) {
    for (const PassReport& report : c.passes) {
      if (report.name == "branches") return report.note;
    }
    return "none";
  }

  Program program_ = two_directions();
  KernelCache cache_{Device{}};
  CompileOptions one_, two_;
};

TEST_F(BranchQueue, TheBitsOfOneQueueUnderEveryPass) {
  for (const Recompute method : {Recompute::none, Recompute::sqrt, Recompute::echo}) {
    for (const bool inplace : {true, false}) {
      for (CompileOptions* options : {&one_, &two_}) {
        options->recompute = method, options->inplace = inplace;
        options->queue_budget = 1 << 20;
      }
      const Compiled one = made(one_), two = made(two_);
      EXPECT_EQ(queue_count(one.program), 1);
      EXPECT_EQ(queue_count(two.program), 2) << note(two);
      EXPECT_EQ(difference_of(program_, bits_of(one), bits_of(two)), "");
    }
  }
}

// What is predicted counts queues side by side, and the plan says what it gained.
TEST_F(BranchQueue, IsFasterAndHardlyLarger) {
  two_.queue_budget = 1 << 20;
  one_.layouts = two_.layouts = false;  // a card packs no weights, and here they are large
  const Compiled one = made(one_), two = made(two_);
  EXPECT_LT(two.time->step_ms, 0.75 * one.time->step_ms) << note(two);
  // Each queue has a workspace of its own, which may be larger than all values here.
  const auto values = [](const Compiled& c, const CompileOptions& options) {
    return double(peak_bytes(c.program, {}, storage_options(options)));
  };
  EXPECT_LE(values(two, two_), 1.15 * values(one, one_));
  int64_t workspaces = 0;  // those of nodes that may run at one time are beside each other
  for (const Storage& storage : two.storages.list) {
    if (storage.workspace_of != kNone) workspaces += align_up(storage.bytes);
  }
  EXPECT_LE(double(two.plan.device().bytes - workspaces), 1.15 * double(one.plan.device().bytes));
  const ByNode<NodeDemand> demands = demands_of(two.program, launching_card(), &two.storages);
  EXPECT_EQ(two.time->step_ms, run_side_by_side(two.program, demands).ms);
  EXPECT_GE(two.time->step_ms, least_ms(two.program, demands));
  EXPECT_EQ(two.passes.back().name, "branches");
  EXPECT_NEAR(two.passes.back().added_ms, two.time->step_ms - one.time->step_ms, 1e-9);
}

TEST_F(BranchQueue, KeepsToTheBudget) {
  const int64_t bytes = made(one_).plan.device().bytes;
  int64_t most = 0;
  for (const double part : {1.0, 1.01, 1.05, 1.2, 1.5}) {
    two_.budget = int64_t(part * double(bytes));
    const Compiled c = made(two_);
    EXPECT_LE(c.plan.device().bytes, *two_.budget);
    most = std::max(most, c.plan.device().bytes);
  }
  two_.budget = {}, two_.branch_device->capacity = bytes;
  EXPECT_LE(made(two_).plan.device().bytes, bytes);
  EXPECT_GT(most, bytes);
}

// What is alive may fit where what is placed does not.
TEST_F(BranchQueue, KeepsToTheBudgetAsItIsPlaced) {
  const StateLayout layout(program_);
  two_.queue_budget = 1 << 20;
  for (const int64_t wasted : {int64_t(0), int64_t(1) << 30}) {
    Compiled step = made(one_);
    queue_branches_of(step, cache_, two_, [&](const Compiled& c) {
      Plan plan = make_plan(c.program, c.storages, layout);
      plan.regions[region_of(Space::device)].bytes += wasted;
      return plan;
    });
    EXPECT_EQ(queue_count(step.program), wasted ? 1 : 2) << note(step);
    if (wasted) {
      EXPECT_EQ(note(step), "two queues do not fit");
    }
  }
}

// Where kernels fill the card, or launches cost nothing to hide, nothing is gained.
TEST_F(BranchQueue, StaysWhereNothingIsGained) {
  two_.branch_device->units = 1, two_.branch_device->launch = 0;
  const Compiled c = made(two_), one = made(one_);
  EXPECT_EQ(queue_count(c.program), 1);
  EXPECT_EQ(note(c), "one queue is as fast");
  EXPECT_TRUE(same_step(c.program, one.program));
}

TEST_F(BranchQueue, WhatHasQueuesOfItsOwnIsLeft) {
  two_.swap.method = Swap::naive;
  const Compiled swapped = made(two_);
  EXPECT_GT(queue_count(swapped.program), 1);
  EXPECT_EQ(note(swapped), "none");
  two_.swap.method = Swap::none;
  EXPECT_EQ(note(made(one_)), "none");
}

}  // namespace
}  // namespace pal::test
