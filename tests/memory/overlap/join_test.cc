// Two micro-batches become one program whose second half waits for state.
#include "memory/overlap/join.h"

#include <gtest/gtest.h>

#include <array>

#include "core/error.h"
#include "core/order.h"
#include "core/verify.h"
#include "memory/queues/waits.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"
#include "tests/memory/running.h"
#include "tests/support/micro_batches.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

TEST(JoinMicroBatches, NamesStateAndScopes) {
  const Program first = toy_micro_batch(true, false), last = toy_micro_batch(false, true);
  const Program p = join_micro_batches(first, last);
  EXPECT_NO_THROW(verify(p));
  EXPECT_EQ(queue_count(p), 2);
  EXPECT_EQ(p.node_count(), first.node_count() + last.node_count());
  EXPECT_NE(p.input("first/x"), p.input("second/x"));
  EXPECT_NE(p.output("first/loss"), p.output("second/loss"));
  EXPECT_NO_THROW(p.output("second/gate"));
  EXPECT_EQ(p.state.size(), last.state.size());  // the optimizer's are the second's alone
  EXPECT_EQ(p.scopes.size(), last.scopes.size());
  for (NodeId n = 0; n < last.node_count(); ++n) {
    ASSERT_EQ(p.scope_of(p.node(first.node_count() + n)), last.scope_of(last.node(n)));
  }
  // Scopes are found again by name, whatever their numbers were.
  Builder elsewhere;
  {
    Builder::Within scope(elsewhere, "front");
    Builder::Within inner(elsewhere, "of all");
    elsewhere.output("y", tanh(elsewhere.input("x", {{4}})));
  }
  const Program other = join_micro_batches(elsewhere.take(), last);
  for (NodeId n = 0; n < last.node_count(); ++n) {
    const NodeId m = other.node_count() - last.node_count() + n;
    ASSERT_EQ(other.scope_of(other.node(m)), last.scope_of(last.node(n)));
  }
  // A sum ends in the second as an update of what the first has left there.
  const StateSlot& mean = *p.find_state("layer0/mean");
  const NodeId second = p.value(mean.end).producer;
  const NodeId before = p.value(p.node(second).in[0]).producer;
  EXPECT_GE(second, first.node_count());
  EXPECT_LT(before, first.node_count());
  EXPECT_EQ(p.value(p.node(before).in[0]).producer, kNone);
}

// The first reads a view of what the second writes: the view's bytes are the state's.
TEST(JoinMicroBatches, WhoWritesWaitsForReadersOfViews) {
  Builder a;
  const Val rows = reshape(a.state("w", {{4, 6}}, Role::weight), {24});
  Val x = a.input("x", {{24}});
  for (int i = 0; i < 3; ++i) x = tanh(x);
  const Val y = mul(rows, x);
  a.output("y", y);
  Builder b;
  assign(b.state("w", {{4, 6}}, Role::weight), b.input("x", {{4, 6}}));
  const Program p = join_micro_batches(a.take(), b.take());
  EXPECT_EQ(p.nodes.back().waits, std::vector<NodeId>{p.value(y.id).producer});
}

// Every wait is for something: without it the program is refused.
TEST(JoinMicroBatches, ALostWaitIsRefused) {
  const Program p = join_micro_batches(toy_micro_batch(true, false), toy_micro_batch(false, true));
  int waits = 0;
  for (NodeId n : p.nodes.ids()) {
    if (p.node(n).waits.empty()) continue;
    Program lost = p;  // no earlier node has waited as long in its place
    for (NodeId m = 0; m <= n; ++m) lost.node(m).waits.clear();
    EXPECT_THROW(verify(lost), ProgramError) << "node " << n;
    ++waits;
  }
  EXPECT_GT(waits, 10);
}

// The same nodes in another order: what comes out is what two steps give, one behind the other.
TEST(JoinMicroBatches, RandomStepsKeepTheirBits) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Program step = random_network(seed);
    const Program joined = join_micro_batches(step, step);
    ASSERT_NO_THROW(verify(joined)) << "seed " << seed;
    ByNode<NodeDemand> demands;
    for (NodeId n : joined.nodes.ids()) {
      demands.push_back({.launch_ms = 0.1, .work_ms = double((n * 7919 + NodeId(seed)) % 13)});
    }
    const SideBySide run = run_side_by_side(joined, demands);
    const Program lockstep = in_time(joined, run), logical = on_one_queue(joined, run);
    ASSERT_NO_THROW(verify(lockstep)) << "seed " << seed;
    ASSERT_NO_THROW(verify(logical)) << "seed " << seed;
    Program plain = joined;
    for (Node& node : plain.nodes) node.queue = kComputeQueue, node.waits.clear();
    ASSERT_EQ(difference_of(plain, bits_of(plain), bits_of(logical)), "") << "seed " << seed;
  }
}

// What a node knows to be done: what its queue and what it waits for know. Nodes stand in the order
// of `run`.
std::vector<std::vector<char>> known_in_time(const Program& p) {
  std::vector<std::vector<char>> known(p.nodes.size(), std::vector<char>(p.nodes.size(), 0));
  std::array<NodeId, 2> last{kNone, kNone};
  for (NodeId n : p.nodes.ids()) {
    std::vector<NodeId> before = p.node(n).waits;
    NodeId& own = last[p.node(n).queue];
    if (own != kNone) before.push_back(own);
    own = n;
    for (const NodeId b : before) {
      known[size_t(n)][size_t(b)] = 1;
      for (size_t k = 0; k < known.size(); ++k) known[size_t(n)][k] |= known[size_t(b)][k];
    }
  }
  return known;
}

// Of so many nodes of a queue that follow each other one knows what had ended beside it; and once
// the first queue has ended, the second's nodes are on it.
TEST(InTime, EveryFewNodesWaitForWhatHasEnded) {
  int moved = 0, waits_of_each = 0, waits_of_few = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Program step = random_network(seed);
    const Program joined = join_micro_batches(step, step);
    ByNode<NodeDemand> demands;
    for (NodeId n : joined.nodes.ids()) {
      demands.push_back({.launch_ms = 0.1, .work_ms = double((n * 7919 + NodeId(seed)) % 13)});
    }
    const SideBySide run = run_side_by_side(joined, demands);
    NodeId end = kNone;
    for (NodeId n : joined.nodes.ids()) {
      if (joined.node(n).queue == kComputeQueue) end = n;
    }
    ByNode<size_t> position(joined.nodes.size(), 0);
    for (size_t i = 0; i < run.order.size(); ++i) position[run.order[i]] = i;
    for (const int every : {1, 3}) {
      const Program p = in_time(joined, run, every);
      const auto known = known_in_time(p);
      std::array<std::vector<NodeId>, 2> queues;  // by what they were called before
      for (size_t i = 0; i < run.order.size(); ++i) {
        const NodeId n = run.order[i];
        const bool second = joined.node(n).queue != kComputeQueue, late = run.seen[n] == end;
        const QueueId queue = p.nodes[i].queue;
        ASSERT_EQ(queue == kComputeQueue, !second || late) << "seed " << seed << ", node " << n;
        moved += second && late;
        for (const NodeId w : p.nodes[i].waits) {
          ++(every == 1 ? waits_of_each : waits_of_few);
          ASSERT_NE(p.node(w).queue, queue) << "a queue's order is no wait";
        }
        queues[queue].push_back(n);
        bool knows = queues[queue].size() < size_t(every);
        for (size_t k = 0; k < size_t(every) && k < queues[queue].size(); ++k) {
          const NodeId seen = run.seen[queues[queue][queues[queue].size() - 1 - k]];
          knows = knows || seen == kNone || known[i][position[seen]];
        }
        ASSERT_TRUE(knows) << "seed " << seed << ", node " << n << ", every " << every;
      }
    }
  }
  EXPECT_GT(moved, 10);
  EXPECT_LT(waits_of_few, waits_of_each);
}

TEST(JoinMicroBatches, BadInput) {
  const auto with = [](int64_t width) {
    Builder b;
    b.output("y", tanh(b.state("w", {{width}}, Role::weight)));
    return b.take();
  };
  const std::string error = message_of([&] { join_micro_batches(with(3), with(4)); });
  EXPECT_NE(error.find("state w is f32[3] in the first micro-batch, and f32[4] in the second"),
            std::string::npos)
      << error;
  Program queues = toy_micro_batch(true, true);
  queues.node(3).queue = 2;
  EXPECT_THROW(join_micro_batches(queues, with(3)), ProgramError);
}

}  // namespace
}  // namespace pal::test
