// Exchanges on a queue of their own: steps by hand, and random ones.
#include "memory/schedule/queue_exchanges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/builder.h"
#include "core/verify.h"
#include "memory/price/predict.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/exchange/exchange.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"

namespace pal::test {
namespace {

ByNode<double> timed(const std::vector<double>& ms) {
  ByNode<double> out;
  for (const double each : ms) out.push_back(each);
  return out;
}

// What the new program takes when its queues run in order.
struct Queued {
  Program program;
  double step_ms = 0;
};
Queued queued(const Program& p, const std::vector<double>& ms, QueueOptions options = {}) {
  QueuedProgram made = queue_exchanges(p, timed(ms), options);
  EXPECT_NO_THROW(verify(made.program));
  EXPECT_EQ(made.program.nodes.size(), p.nodes.size());
  for (const Node& node : made.program.nodes) {
    EXPECT_EQ(node.queue == kExchangeQueue, node.op->collective);
  }
  std::vector<double> in_order;
  for (const NodeId n : made.order) in_order.push_back(ms[size_t(n)]);
  const double step_ms = step_ms_of(made.program, timed(in_order));
  return {std::move(made.program), step_ms};
}

// Names of operators in their order, without exchanges.
std::string computed(const Program& p) {
  std::string out;
  for (const Node& node : p.nodes) {
    if (!node.op->collective) out += std::string(node.op->name) + " ";
  }
  return out;
}

TEST(QueueExchanges, TheRestGoesOnMeanwhile) {
  Builder b;
  Val a = tanh(b.input("x", {{8}}));  // 0: 1 ms
  Val sum = all_reduce({a}, 2)[0];    // 1: 5 ms
  Val c = tanh(tanh(a));              // 2, 3: 2 ms each
  b.output("y", pal::add(sum, c));    // 4: 1 ms
  const Program p = b.take();
  const Queued out = queued(p, {1, 5, 2, 2, 1});
  EXPECT_EQ(out.step_ms, 7) << "1, the exchange, 1";
  const NodeId last = NodeId(p.node_count() - 1);
  ASSERT_EQ(out.program.node(last).waits.size(), 1U);
  EXPECT_TRUE(out.program.node(out.program.node(last).waits[0]).op->collective);
  // A short one is hidden whole.
  EXPECT_EQ(queued(p, {1, 3, 2, 2, 1}).step_ms, 6);
}

TEST(QueueExchanges, AnUpdateWaitsForReadersOfWhatItWrites) {
  Builder b;
  Val w = b.state("w", {{8}}, Role::weight);
  Val g = tanh(b.input("x", {{8}}));    // 0: 1 ms
  Val r = all_reduce({g}, 2)[0];        // 1: 1 ms
  Val s = all_reduce({tanh(g)}, 2)[0];  // 2: 0 ms, 3: 10 ms
  b.output("y", mul(w, s));             // 4: 1 ms
  assign(w, r);                         // 5: 3 ms
  EXPECT_EQ(queued(b.take(), {1, 1, 0, 10, 1, 3}).step_ms, 16) << "w is read at 12, written after";
}

// What no exchange waits for runs beside the first, before the operands of the second.
TEST(QueueExchanges, WhatLeadsToNoneComesBehindTheFirst) {
  Builder b;
  Val x = b.input("x", {{8}});
  Val first = all_reduce({tanh(x)}, 2)[0];      // 0, 1
  Val second = all_reduce({sigmoid(x)}, 2)[0];  // 2, 3
  b.output("y", relu(x));                       // 4
  b.output("z", pal::add(first, second));       // 5
  EXPECT_EQ(computed(queued(b.take(), {1, 5, 1, 1, 1, 1}).program), "tanh relu sigmoid add ");
}

// Of updates only those behind an exchange run when they can.
TEST(QueueExchanges, OtherUpdatesKeepTheirPlace) {
  Builder b;
  Val w = b.state("w", {{8}}, Role::weight);
  Val x = b.input("x", {{8}});
  Val sum = all_reduce({x}, 2)[0];              // 0
  b.output("y", pal::add(relu(relu(x)), sum));  // 1, 2, 3
  assign(w, x);                                 // 4
  const Program p = b.take();
  const EarlyOperands none = EarlyOperands::none;
  EXPECT_EQ(computed(queued(p, {1, 1, 1, 1, 1}, {.early = none}).program), computed(p));
}

// A gather of new weights writes where an exchange and a node read before.
TEST(QueueExchanges, AGatherOfStateWaitsForReadersOnOtherQueues) {
  Builder b;
  Val w = b.state("w", {{8}}, Role::weight);
  const Val kept = b.input("x", {{8}});
  b.output("y", tanh(w));                                // 0: 9 ms
  assign(w, kept);                                       // 1: 1 ms
  gather_state({Val{&b, b.program().state[0].end}}, 2);  // 2: 1 ms
  const Program p = b.take();
  const Queued out = queued(p, {9, 1, 1});
  EXPECT_EQ(out.step_ms, 11);
  EXPECT_EQ(out.program.node(2).waits, std::vector<NodeId>{1});
}

TEST(QueueExchanges, SumsThatAnotherExchangeTakesGoFirst) {
  Builder b;
  Val a = tanh(b.input("x", {{8}}));                      // 0: 1 ms
  Val far = tanh(tanh(tanh(a)));                          // 1, 2, 3: 2 ms each
  Val sum = tanh(all_reduce({a}, 2)[0]);                  // 4: 1 ms, 5: 1 ms
  b.output("y", pal::add(all_reduce({sum}, 2)[0], far));  // 6: 3 ms, 7: 1 ms
  // The first exchange is there at 2; its sum, in turn behind the node that runs, at 4; the second
  // at 7, while the rest runs until 8.
  EXPECT_EQ(queued(b.take(), {1, 2, 2, 2, 1, 1, 3, 1}).step_ms, 9);
}

// A gradient that the plan makes last, since nobody but the exchange reads it, is made when it can
// be.
TEST(QueueExchanges, OperandsAreMadeEarly) {
  Builder b;
  Builder::Within phase(b, Phase::backward);
  Val a = tanh(b.input("x", {{8}}));  // 0: 1 ms
  Val c = relu(relu(relu(a)));        // 1, 2, 3: 2 ms each
  Val g = pal::add(a, a);             // 4: 1 ms
  Val sum = all_reduce({g}, 2)[0];    // 5: 6 ms
  b.output("y", pal::add(sum, c));    // 6: 1 ms
  const Program p = b.take();
  const std::vector<double> ms{1, 2, 2, 2, 1, 6, 1};
  const Queued early = queued(p, ms), late = queued(p, ms, {.early = EarlyOperands::none});
  EXPECT_EQ(late.step_ms, 15) << "8, the exchange, 1";
  EXPECT_EQ(early.step_ms, 9) << "2, the exchange, 1";
  EXPECT_EQ(queued(p, ms, {.early = EarlyOperands::sole}).step_ms, 9);
  EXPECT_EQ(computed(late.program), computed(p));
  EXPECT_EQ(computed(early.program), "tanh add relu relu relu add ");
}

// Two gradients whose makers have other readers as well: only an order by exchanges brings the
// first forward.
TEST(QueueExchanges, TheFirstExchangesOperandsComeFirst) {
  Builder b;
  Builder::Within phase(b, Phase::backward);
  Val x = b.input("x", {{8}});
  Val far = relu(relu(x));                          // 0, 1: 3 ms each
  Val near = tanh(tanh(x));                         // 2, 3: 1 ms each
  Val r = all_reduce({near}, 2)[0];                 // 4: 4 ms
  Val s = all_reduce({pal::add(far, near)}, 2)[0];  // 5: 1 ms, 6: 1 ms
  b.output("y", pal::add(r, s));                    // 7: 1 ms
  const Program p = b.take();
  const std::vector<double> ms{3, 3, 1, 1, 4, 1, 1, 1};
  EXPECT_EQ(queued(p, ms, {.early = EarlyOperands::sole}).step_ms, 14) << "8, 4, 1, 1";
  const Queued out = queued(p, ms);
  EXPECT_EQ(out.step_ms, 11) << "2, 6, 1, 1, 1";
  EXPECT_EQ(computed(out.program), "tanh tanh relu relu add add ");
}

TEST(QueueExchanges, WhatRunsAgainKeepsItsPlace) {
  Builder b;
  Val x = b.input("x", {{8}});
  Val a = tanh(x);        // 0: forward
  Val c = relu(relu(a));  // 1, 2
  Program p;
  {
    Builder::Within phase(b, Phase::recompute);
    a = tanh(x);  // 3
  }
  Builder::Within phase(b, Phase::backward);
  b.output("y", pal::add(all_reduce({pal::add(a, a)}, 2)[0], c));  // 4, 5, 6
  p = b.take();
  const Queued out = queued(p, {1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(computed(out.program), computed(p));
}

// Weights that are gathered layer by layer: without a limit all at once, with one when their
// reader's turn is near.
TEST(QueueExchanges, GathersKeepToTheLimit) {
  Builder b;
  Val x = b.input("x", {{2, 64}});
  std::vector<double> ms;
  for (int i = 0; i < 6; ++i) {
    const Val piece = b.state("w" + std::to_string(i), {{64}}, Role::weight);
    x = pal::add(x, all_gather({piece}, {Shape{2, 64}}, 2)[0]);
    ms.insert(ms.end(), {1, 4});
  }
  b.output("y", x);
  const Program p = b.take();
  const auto most_ahead = [&](const Program& q) {
    int ahead = 0, most = 0;
    for (const Node& node : q.nodes) most = std::max(most, ahead += node.op->collective ? 1 : -1);
    return most;
  };
  EXPECT_EQ(exchanged_bytes(p), 6 * 2 * 64 * 4);
  EXPECT_EQ(most_ahead(queued(p, ms).program), 4) << "and the fifth begins with its reader";
  const int64_t one = 2 * 64 * 4;
  EXPECT_EQ(most_ahead(queued(p, ms, {.most_held = 2 * one}).program), 2);
  EXPECT_EQ(most_ahead(queued(p, ms, {.most_held = 0}).program), 1);
  EXPECT_EQ(queued(p, ms, {.most_held = 2 * one}).step_ms, 25) << "1 and six sums";
  EXPECT_EQ(queued(p, ms, {.most_held = 0}).step_ms, 25) << "the next begins with the reader";
}

// A reader that stands right where its exchange is expected to end holds up what is behind it when
// the exchange is late.
TEST(QueueExchanges, LateReadersStandWithSlack) {
  Builder b;
  Builder::Within phase(b, Phase::backward);
  Val x = b.input("x", {{8}});
  b.output("sum", tanh(all_reduce({x}, 2)[0]));  // 0: 3.5 ms, 1: 1 ms
  Val far = x;
  for (int i = 0; i < 8; ++i) far = relu(far);  // 2 to 9: 1 ms each
  b.output("far", far);
  const Program p = b.take();
  const std::vector<double> ms{3.5, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const std::string r = "relu ";
  EXPECT_EQ(computed(queued(p, ms).program), r + r + r + r + "tanh " + r + r + r + r);
  EXPECT_EQ(computed(queued(p, ms, {.slack = 0.5}).program),
            r + r + r + r + r + r + "tanh " + r + r);
}

// Gradients that are made while an exchange is on its way wait for it: with a limit they are not
// made until it is over.
TEST(QueueExchanges, OperandsKeepToTheLimit) {
  Builder b;
  Builder::Within phase(b, Phase::backward);
  Val x = b.input("x", {{64}});
  std::vector<double> ms;
  for (int i = 0; i < 5; ++i) {
    x = tanh(x);
    b.output("y" + std::to_string(i), all_reduce({x}, 2)[0]);
    ms.insert(ms.end(), {1, 4});
  }
  const Program p = b.take();
  const auto most_waiting = [](const Program& q) {
    int waiting = 0, most = 0;
    for (const Node& node : q.nodes) most = std::max(most, waiting += node.op->collective ? -1 : 1);
    return most;
  };
  EXPECT_EQ(most_waiting(queued(p, ms).program), 4);
  EXPECT_EQ(most_waiting(queued(p, ms, {.most_held = 0}).program), 1);
}

// Of two late nodes that are ready the one goes first whose result another exchange waits for.
TEST(QueueExchanges, SumsGoBeforeOtherLateNodes) {
  Builder b;
  Builder::Within phase(b, Phase::backward);
  Val x = b.input("x", {{8}});
  Val r = all_reduce({x}, 2)[0];                     // 0: 1 ms
  b.output("seen", relu(r));                         // 1: 4 ms
  b.output("y", tanh(all_reduce({tanh(r)}, 2)[0]));  // 2: 1 ms, 3: 4 ms, 4: 1 ms
  const Queued out = queued(b.take(), {1, 4, 1, 4, 1});
  EXPECT_EQ(computed(out.program), "tanh relu tanh ");
  EXPECT_EQ(out.step_ms, 7);
}

// Copies have their queues already, and keep their order.
TEST(QueueExchanges, StandBesideCopies) {
  Builder b;
  Val a = tanh(b.input("x", {{8}}));
  Val sum = all_reduce({a}, 2)[0];
  Val c = tanh(a);
  b.output("y", pal::add(sum, c));
  Program p = b.take();
  p.node(2).queue = 1, p.node(2).waits = {0}, p.node(3).waits = {2};
  const QueuedProgram out = queue_exchanges(p, timed({1, 5, 4, 1}));
  EXPECT_NO_THROW(verify(out.program));
  EXPECT_EQ(out.program.node(3).waits.size(), 2U) << "one on each other queue";
}

std::vector<std::string> exchanged(const Program& p) {
  std::vector<std::string> out;
  for (const Node& node : p.nodes) {
    if (node.op->collective) out.push_back(to_string(p.value(node.in[0]).spec));
  }
  return out;
}

TEST(QueueExchanges, RandomStepsLieBetweenTheBounds) {
  std::mt19937 random(11);
  for (int i = 0; i < 400; ++i) {
    Builder b;
    Builder::Within phase(b, Phase::backward);
    std::vector<Val> made{b.input("x", {{8 + i % 5}})};
    std::vector<Val> state;
    for (int k = 0; k < 3; ++k) {
      state.push_back(b.state("w" + std::to_string(k), made[0].spec(), Role::weight));
      made.push_back(state.back());
    }
    const auto any = [&] { return made[random() % made.size()]; };
    for (int k = 0; k < 40; ++k) {
      made.push_back(random() % 4 == 0   ? all_reduce({any()}, 2)[0]
                     : random() % 2 == 0 ? tanh(any())
                                         : pal::add(any(), any()));
    }
    b.output("y", made.back());
    for (const Val w : state) assign(w, made[made.size() - 1 - random() % 30]);
    const Program p = b.take();
    std::vector<double> ms;
    double exchanges = 0, others = 0;
    ByNode<double> path(p.nodes.size());  // when a node could end if nothing else ran
    double longest = 0;
    for (NodeId n : p.nodes.ids()) {
      const Node& node = p.node(n);
      ms.push_back(double(random() % 8));
      (node.op->collective ? exchanges : others) += ms.back();
      double begin = 0;
      for (const ValueId v : present(node.in)) {
        if (p.value(v).producer != kNone) begin = std::max(begin, path[p.value(v).producer]);
      }
      path[n] = begin + ms.back();
      longest = std::max(longest, path[n]);
    }
    const int64_t limits[] = {kAnyBytes, exchanged_bytes(p) / 4, 0};
    for (const EarlyOperands early :
         {EarlyOperands::none, EarlyOperands::sole, EarlyOperands::all}) {
      for (const int64_t limit : limits) {
        const Queued out = queued(p, ms, {.early = early, .most_held = limit});
        EXPECT_LE(out.step_ms, exchanges + others);
        EXPECT_GE(out.step_ms, std::max({exchanges, others, longest}));
        EXPECT_EQ(exchanged(out.program), exchanged(p));
      }
    }
  }
}

}  // namespace
}  // namespace pal::test
