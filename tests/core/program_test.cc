// Programs as data: specs, attributes, recording, printing, permuting.
#include <gtest/gtest.h>

#include "core/builder.h"
#include "core/error.h"
#include "core/print.h"
#include "core/verify.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/products/matmul.h"
#include "ops/tensors/state.h"

namespace pal {
namespace {

template <class F> std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Spec, SizesAndText) {
  EXPECT_EQ((TensorSpec{{3, 5}, DType::bf16}.bytes()), 30);
  EXPECT_EQ((TensorSpec{{3, 5}, DType::bit}.bytes()), 2);
  EXPECT_EQ((TensorSpec{{3, 5}, DType::u4}.bytes()), 8);
  EXPECT_EQ((TensorSpec{{3, 4}, DType::u4}.bytes()), 6);
  EXPECT_EQ(to_string(TensorSpec{{2, 9}, DType::u4}), "u4[2,9]");
  EXPECT_EQ(to_string(TensorSpec{{100, 128}, DType::i32}), "i32[100,128]");
  auto blocked = std::make_shared<BlockedLayout>(BlockedLayout{"ABcd16b16a", 4096, nullptr});
  const TensorSpec spec{{3, 5}, DType::f32, blocked};
  EXPECT_EQ(spec.bytes(), 4096);
  EXPECT_EQ(to_string(spec), "f32[3,5]:ABcd16b16a");
  EXPECT_FALSE(spec == (TensorSpec{{3, 5}}));
  EXPECT_NE(hash_of(spec), hash_of(TensorSpec{{3, 5}}));
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ProgramError);
}

struct Sample {
  bool flag = false;
  float rate = 0;
  Shape shape;
  auto fields() const {
    return std::tuple{field("flag", flag), field("rate", rate), field("shape", shape)};
  }
};

TEST(Attrs, PrintCompareAndHashByFields) {
  const Attrs a = Sample{true, 0.1f, {2, 3}}, same = Sample{true, 0.1f, {2, 3}};
  const Attrs other = Sample{true, 0.1f, {3, 2}};
  EXPECT_EQ(a.print(), "flag=true rate=0.10000000149011612 shape=[2,3]");
  EXPECT_TRUE(a == same);
  EXPECT_EQ(a.hash(), same.hash());
  EXPECT_FALSE(a == other);
  EXPECT_NE(a.hash(), other.hash());
  EXPECT_FALSE(a == Attrs());
  EXPECT_THROW(a.as<NoAttrs>(), std::bad_cast);
}

// w' = w + tanh(x w), the smallest step with everything in it.
Program small(Builder& b) {
  Val x = b.input("x", {{2, 4}});
  Builder::Within scope(b, "layer");
  Val w = b.weight("w", {{4, 4}}, {});
  Builder::Within step(b, "rnn", 3);
  Val y = tanh(matmul(x, w));
  b.output("loss", y);
  assign(w, matmul(x, y, true));
  return b.take();
}

TEST(Print, OneLineANode) {
  Builder b;
  EXPECT_EQ(
      print(small(b)),
      "input %0 x : f32[2,4]\n"
      "state %1 layer/w : f32[4,4] weight -> %5\n"
      "forward %2 = matmul(%0, %1, _) ta=false tb=false dtype=f32 : f32[2,4]  # layer/rnn t=3\n"
      "forward %3 = tanh(%2) : f32[2,4]  # layer/rnn t=3\n"
      "forward %4 = matmul(%0, %3, _) ta=true tb=false dtype=f32 : f32[4,4]  # layer/rnn t=3\n"
      "update %5 = assign(%1, %4, _) gated=false : f32[4,4]  # layer/rnn t=3\n"
      "output %3 loss\n");
}

TEST(Print, GraphvizHasEveryNodeAndEdge) {
  Builder b;
  const std::string dot = to_dot(small(b));
  EXPECT_EQ(dot.find("digraph program {"), 0u);
  EXPECT_NE(dot.find("n1 [fillcolor=\"#cfe2f3\", label=\"tanh\\nlayer/rnn t=3\"]"),
            std::string::npos)
      << dot;
  EXPECT_NE(dot.find("v1 -> n0 [label=\"%1 f32[4,4]\"]"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n0 -> n1"), std::string::npos);
}

TEST(Builder, StateIsOneSlotUnderItsName) {
  Builder b;
  Val first = b.weight("w", {{4}}, {});
  EXPECT_EQ(b.weight("w", {{4}}, {}).id, first.id);
  EXPECT_EQ(message_of([&] { b.weight("w", {{5}}, {}); }),
            "state w is f32[4], asked for as f32[5]");
  Val next = assign(first, b.input("x", {{4}}));
  EXPECT_EQ(b.weight("w", {{4}}, {}).id, next.id);  // readers from here on see the new value
  EXPECT_NE(message_of([&] { assign(first, next); }).find("newest value"), std::string::npos);
}

TEST(Builder, ErrorsNameTheOperatorAndThePlace) {
  Builder b;
  Builder::Within scope(b, "encoder/rnn0");
  Val x = b.input("x", {{3, 4}}), w = b.weight("w", {{5, 2}}, {});
  const std::string message = message_of([&] { matmul(x, w); });
  EXPECT_EQ(message.find("[matmul] "), 0u) << message;
  EXPECT_NE(message.find("at encoder/rnn0"), std::string::npos) << message;
  Builder other;
  EXPECT_NE(message_of([&] {
              add(x, other.input("y", {{3, 4}}));
            }).find("another program"),
            std::string::npos);
}

TEST(Permuted, RenumbersAndRefuses) {
  Builder b;
  Val x = b.input("x", {{2}});
  Val a = tanh(x), c = sigmoid(x);
  b.output("loss", add(a, c));
  const Program p = b.take();
  const Program q = permuted(p, {1, 0, 2});
  EXPECT_NO_THROW(verify(q));
  EXPECT_STREQ(q.nodes[0].op->name, "sigmoid");
  EXPECT_EQ(q.value(a.id).producer, 1);
  EXPECT_NE(message_of([&] {
              verify(permuted(p, {2, 1, 0}));
            }).find("before it is made"),
            std::string::npos);
  EXPECT_THROW(permuted(p, {0, 0, 1}), ProgramError);
  EXPECT_THROW(permuted(p, {0, 1}), ProgramError);
}

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() {
    Builder b;
    program_ = small(b);
    verify(program_);
  }
  std::string fault() {
    return message_of([&] { verify(program_); });
  }
  Program program_;
};

TEST_F(VerifyTest, AValueIsMadeOnce) {
  program_.nodes[1].out = program_.nodes[0].out;
  EXPECT_NE(fault().find("makes %2 again"), std::string::npos) << fault();
}

TEST_F(VerifyTest, SpecsAreWhatTheOperatorInfers) {
  program_.value(3).spec.shape = {2, 5};
  EXPECT_NE(fault().find("[tanh] %3 is f32[2,5], the operator makes f32[2,4]"), std::string::npos)
      << fault();
}

TEST_F(VerifyTest, StateIsWrittenByUpdatesAfterItsReaders) {
  program_.nodes.push_back(program_.nodes[1]);  // made a second product by w, too late
  program_.nodes.back().op = program_.nodes[0].op;
  program_.nodes.back().attrs = program_.nodes[0].attrs;
  program_.nodes.back().in = {0, 1, kNone};
  program_.values.push_back(program_.value(2));
  program_.nodes.back().out = {ValueId(program_.values.size()) - 1};
  program_.relink();
  EXPECT_NE(fault().find("has read the old value"), std::string::npos) << fault();
}

TEST_F(VerifyTest, NoStateIsWrittenBeforeTheLossExists) {
  program_ = permuted(program_, {0, 1, 2, 3});
  Builder b(std::move(program_));
  Val late = tanh({&b, 4});
  b.program().outputs[0].value = late.id;
  program_ = b.take();
  EXPECT_NE(fault().find("before the loss exists"), std::string::npos) << fault();
}

TEST_F(VerifyTest, AWaitIsForAnEarlierNode) {
  for (const NodeId late : {2, 0, -1}) {
    program_.nodes[0].waits = {late};
    EXPECT_NE(fault().find("which is not earlier"), std::string::npos) << late << fault();
  }
}

TEST_F(VerifyTest, WhatAnotherQueueMakesIsWaitedFor) {
  program_.nodes[1].queue = 1;
  EXPECT_NE(fault().find("without waiting for node 0 on queue 0"), std::string::npos) << fault();
  program_.nodes[1].waits = {0};
  EXPECT_NE(fault().find("without waiting for node 1 on queue 1"), std::string::npos) << fault();
  program_.nodes[2].waits = {1};
  EXPECT_EQ(fault(), "");
}

}  // namespace
}  // namespace pal
