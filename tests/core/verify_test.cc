// A program with one fault in it, rule by rule: which fault verify finds, in its own words.
#include "core/verify.h"

#include <gtest/gtest.h>

#include "core/builder.h"
#include "core/error.h"
#include "core/order.h"
#include "ops/elementwise/activations.h"
#include "ops/exchange/exchange.h"
#include "ops/products/matmul.h"
#include "ops/tensors/state.h"

namespace pal {
namespace {

std::string fault_of(const Program& program) {
  try {
    verify(program);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// n0: %2 = x w, n1: %3 = tanh(%2), the loss; n2: %4 = x' %3; n3: w' = %5 = %4.
Program one_step() {
  Builder b;
  Val x = b.input("x", {{2, 4}});
  Builder::Within scope(b, "layer");
  Val w = b.weight("w", {{4, 4}}, {});
  Val y = tanh(matmul(x, w));
  b.output("loss", y);
  assign(w, matmul(x, y, true));
  return b.take();
}

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() : program_(one_step()) { verify(program_); }
  std::string fault() const { return fault_of(program_); }
  Program program_;
};

TEST_F(VerifyTest, InputsAndStateHaveAValueEachOfTheirOwn) {
  program_.inputs[0].value = 6;
  EXPECT_EQ(fault(), "input x has no value");
  program_.inputs[0].value = kNone;
  EXPECT_EQ(fault(), "input x has no value");
  program_.inputs[0].value = 1;
  EXPECT_EQ(fault(), "state layer/w shares value %1");
}

TEST_F(VerifyTest, OperandsAreThere) {
  Program p = program_;
  p.node(1).in[0] = kNone;
  EXPECT_EQ(fault_of(p), "[tanh] operand 0 is missing, at node 1 (layer)");
  p.node(1).in[0] = 6;
  EXPECT_EQ(fault_of(p), "[tanh] operand 0 is no value of this program, at node 1 (layer)");
  p.node(1).in[0] = 4;
  p.node(1).scope = 0;
  EXPECT_EQ(fault_of(p), "[tanh] reads %4 before it is made, at node 1");
}

TEST_F(VerifyTest, OutputsAreWhatTheOperatorMakes) {
  Program p = program_;
  p.node(1).out.clear();
  EXPECT_EQ(fault_of(p), "[tanh] has the wrong number of outputs, at node 1 (layer)");
  p.node(1).out = {6};
  EXPECT_EQ(fault_of(p), "[tanh] output 0 is no value of this program, at node 1 (layer)");
  p.node(1).out = {2};
  EXPECT_EQ(fault_of(p), "[tanh] makes %2 again, at node 1 (layer)");
  p = program_;
  p.value(3).producer = 2;
  EXPECT_EQ(fault_of(p), "[tanh] %3 does not name it as its producer, at node 1 (layer)");
  p = program_;
  p.value(3).spec.shape = {2, 5};
  EXPECT_EQ(fault_of(p), "[tanh] %3 is f32[2,5], the operator makes f32[2,4], at node 1 (layer)");
}

TEST_F(VerifyTest, StateIsWrittenInTheUpdatePhaseAndNothingElseIs) {
  Program p = program_;
  p.node(3).phase = Phase::backward;
  EXPECT_EQ(fault_of(p), "[assign] writes state outside the update phase, at node 3 (layer)");
  p = program_;
  p.node(1).phase = Phase::update;
  EXPECT_EQ(fault_of(p), "[tanh] is in the update phase and writes no state, at node 1 (layer)");
}

TEST_F(VerifyTest, OutputsOfTheProgramAreMade) {
  Program p = program_;
  p.outputs[0].value = 6;
  EXPECT_EQ(fault_of(p), "output loss has no value");
  p.outputs[0].value = ValueId(p.values.size());
  p.values.push_back(p.value(3));
  p.value(p.outputs[0].value).producer = kNone;
  EXPECT_EQ(fault_of(p), "output loss is never made");
}

TEST_F(VerifyTest, AValueNamesTheNodeThatMakesIt) {
  program_.value(0).producer = 2;
  EXPECT_EQ(fault(), "%0 names node 2 as its producer, which does not make it");
}

TEST_F(VerifyTest, StateEndsAsWhatItsUpdatesMake) {
  Program p = program_;
  p.state[0].end = 0;
  EXPECT_EQ(fault_of(p), "state layer/w ends as a value nobody makes");
  p.state[0].end = kNone;
  EXPECT_EQ(fault_of(p), "state layer/w ends as a value nobody makes");
  p.state[0].end = 4;
  EXPECT_EQ(fault_of(p), "[matmul] is no update and makes the next layer/w, at node 2 (layer)");
  p.state[0].end = p.state[0].start;
  EXPECT_EQ(fault_of(p), "[assign] writes %5, which no state ends as, at node 3 (layer)");
  p = program_;
  p.value(1).spec.dtype = DType::bf16;
  p.node(0).in[1] = p.node(2).in[0];  // nobody else minds the type
  p.node(0).in[0] = 1;
  EXPECT_NE(fault_of(p), "");
}

TEST_F(VerifyTest, AnUpdateComesAfterTheReadersOfTheOldValue) {
  Node reader = program_.node(0);
  reader.out = {ValueId(program_.values.size())};
  program_.values.push_back(program_.value(2));
  program_.nodes.push_back(std::move(reader));
  program_.relink();
  EXPECT_EQ(fault(),
            "[assign] writes layer/w before node 4 (matmul) has read the old value, at node 3 "
            "(layer)");
}

// The loss is what the output of that name is, not the first output nor the last.
TEST_F(VerifyTest, NoStateIsWrittenBeforeTheLossExists) {
  Builder b(std::move(program_));
  Val late = tanh({&b, 4});
  b.program().outputs = {{"first", 3}, {"loss", late.id}, {"last", 3}};
  program_ = b.take();
  EXPECT_EQ(fault(), "[assign] writes layer/w before the loss exists, at node 3 (layer)");
  program_.outputs[1].name = "other";
  EXPECT_EQ(fault(), "");
}

TEST_F(VerifyTest, AWaitIsForAnEarlierNode) {
  for (const NodeId late : {2, 0, -1}) {
    program_.nodes[0].waits = {late};
    EXPECT_EQ(fault(), "[matmul] waits for node " + std::to_string(late) +
                           ", which is not earlier, at node 0 (layer)");
  }
}

TEST_F(VerifyTest, WhatAnotherQueueMakesIsWaitedFor) {
  program_.nodes[1].queue = 1;
  EXPECT_EQ(fault(), "[tanh] reads %2 without waiting for node 0 on queue 0, at node 1 (layer)");
  program_.nodes[1].waits = {0};
  EXPECT_EQ(fault(), "[matmul] reads %3 without waiting for node 1 on queue 1, at node 2 (layer)");
  program_.nodes[2].waits = {1};
  EXPECT_EQ(fault(), "");
}

// n0 and n1: sums over two ranks, the second of which waits for the first.
TEST(VerifyCollectives, EachWaitsForTheOneBeforeItOrFollowsItOnItsQueue) {
  Builder b;
  Val x = b.input("x", {{4}});
  all_reduce({x}, 2);
  tanh(x);
  all_reduce({x}, 2);
  Program p = b.take();
  EXPECT_EQ(fault_of(p), "");
  p.node(2).waits = {1};
  EXPECT_EQ(fault_of(p),
            "[all_reduce] does not wait for node 0, the collective before it, at node 2");
  p.node(2).waits = {};
  EXPECT_NE(fault_of(p), "");  // passes reorder the nodes of one queue
  p.node(1).queue = 1;
  EXPECT_EQ(fault_of(p), "");
  p.node(2).queue = 1;
  EXPECT_NE(fault_of(p), "");
}

// Four nodes on three queues: n1 waits for n0, n2 for n1, n3 for nothing.
TEST(Order, WaitsCarryWhatWasWaitedForBefore) {
  Builder b;
  Val x = b.input("x", {{4}});
  for (int i = 0; i < 4; ++i) tanh(x);
  Program p = b.take();
  EXPECT_EQ(queue_count(p), 1);
  const Order one(p);
  EXPECT_EQ(one.queues(), 1);
  EXPECT_TRUE(one.before(0, 3));
  EXPECT_FALSE(one.before(3, 3));
  p.node(1).queue = 1, p.node(1).waits = {0};
  p.node(2).queue = 2, p.node(2).waits = {1};
  const Order order(p);
  EXPECT_EQ(order.queues(), 3);
  EXPECT_TRUE(order.before(0, 2));   // by way of node 1
  EXPECT_TRUE(order.before(0, 3));   // the same queue
  EXPECT_FALSE(order.before(1, 3));  // nobody waits
  EXPECT_FALSE(order.before(2, 1));
  EXPECT_FALSE(order.before(1, 0));
}

TEST(Order, OfEachOtherQueueTheLastIsWaitedFor) {
  ByNode<QueueId> queue(5, QueueId(0));
  queue[1] = queue[2] = 2;
  queue[3] = 1;
  ByNode<NodeId> position(5, 0);
  for (NodeId n = 0; n < 5; ++n) position[n] = n;
  EXPECT_EQ(last_on_others({1, 2, 3, 4}, 0, queue, position), (std::vector<NodeId>{3, 2}));
  position[1] = 7;
  EXPECT_EQ(last_on_others({1, 2, 3, 4}, 0, queue, position), (std::vector<NodeId>{3, 1}));
  EXPECT_EQ(last_on_others({0, 4, 1}, 2, queue, position), (std::vector<NodeId>{4}));
}

}  // namespace
}  // namespace pal
