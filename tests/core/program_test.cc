// Programs as data: specs, attributes, recording, printing, permuting.
#include <gtest/gtest.h>

#include <functional>

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
  Program p = small(b);
  p.node(2).waits = {0};
  p.node(2).step = kNone;
  p.node(2).scope = 0;
  EXPECT_EQ(to_dot(p),
            "digraph program {\n"
            "  node [shape=box, style=filled, fontname=Helvetica];\n"
            "  v0 [shape=ellipse, fillcolor=\"#eeeeee\", label=\"x\\nf32[2,4]\"];\n"
            "  v1 [shape=ellipse, fillcolor=\"#ead1dc\", label=\"layer/w\\nf32[4,4]\"];\n"
            "  n0 [fillcolor=\"#cfe2f3\", label=\"matmul\\nlayer/rnn t=3\"];\n"
            "  v0 -> n0 [label=\"%0 f32[2,4]\"];\n"
            "  v1 -> n0 [label=\"%1 f32[4,4]\"];\n"
            "  n1 [fillcolor=\"#cfe2f3\", label=\"tanh\\nlayer/rnn t=3\"];\n"
            "  n0 -> n1 [label=\"%2 f32[2,4]\"];\n"
            "  n2 [fillcolor=\"#cfe2f3\", label=\"matmul\"];\n"
            "  v0 -> n2 [label=\"%0 f32[2,4]\"];\n"
            "  n1 -> n2 [label=\"%3 f32[2,4]\"];\n"
            "  n0 -> n2 [style=dashed];\n"
            "  n3 [fillcolor=\"#b6d7a8\", label=\"assign\\nlayer/rnn t=3\"];\n"
            "  v1 -> n3 [label=\"%1 f32[4,4]\"];\n"
            "  n2 -> n3 [label=\"%4 f32[4,4]\"];\n"
            "}\n");
}

TEST(Print, AbsentOutputsQueuesWaitsAndStorages) {
  Builder b;
  Program p = small(b);
  p.node(1).queue = 2;
  p.node(1).waits = {0};
  p.node(2).waits = {0, 1};
  p.node(2).out = {kNone};
  p.node(2).scope = 0;
  p.node(2).step = kNone;
  EXPECT_EQ(print_node(p, 1), "forward %3 = tanh(%2) : f32[2,4] on q2 after n0  # layer/rnn t=3");
  EXPECT_EQ(print_node(p, 2),
            "forward _ = matmul(%0, %3, _) ta=true tb=false dtype=f32 : _ after n0 after n1");
  Storages storages;
  storages.of = ByValue<StorageId>(p.values.size(), 7);
  storages.offset = ByValue<int64_t>(p.values.size(), 0);
  storages.offset[2] = 64;
  EXPECT_EQ(print_node(p, 1, &storages),
            "forward %3@7 = tanh(%2@7+64) : f32[2,4] on q2 after n0  # layer/rnn t=3");
  p.node(0).out = {2, 3};
  EXPECT_EQ(print_node(p, 0).find("forward %2, %3 = matmul("), 0u);
  EXPECT_NE(print_node(p, 0).find(" : f32[2,4], f32[2,4]"), std::string::npos);
  const std::string all = print(p, &storages);
  EXPECT_NE(all.find("input %0@7 x : "), std::string::npos) << all;
  EXPECT_NE(all.find("state %1@7 layer/w : f32[4,4] weight -> %5@7\n"), std::string::npos) << all;
  EXPECT_NE(all.find("output %3@7 loss\n"), std::string::npos) << all;
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
  EXPECT_THROW(permuted(p, {0, 1, 3}), ProgramError);
  EXPECT_THROW(permuted(p, {0, 1, -2}), ProgramError);
}

// Everything of a node counts, and of values their specs.
TEST(SameStep, DiffersWithEachPartOfANode) {
  Builder b;
  const Program p = small(b);
  EXPECT_TRUE(same_step(p, p));
  const std::function<void(Program&)> faults[] = {
      [](Program& q) { q.node(1).op = q.node(0).op; },
      [](Program& q) { q.node(1).in[0] = 0; },
      [](Program& q) { q.node(1).out[0] = kNone; },
      [](Program& q) { q.node(1).phase = Phase::backward; },
      [](Program& q) { q.node(1).queue = 1; },
      [](Program& q) { q.node(1).waits = {0}; },
      [](Program& q) { q.node(1).scope = 0; },
      [](Program& q) { q.node(1).step = 2; },
      [](Program& q) { q.node(0).attrs = q.node(2).attrs; },
      [](Program& q) { q.value(5).spec.dtype = DType::bf16; },
      [](Program& q) { q.nodes.push_back(q.node(3)); },
      [](Program& q) { q.values.push_back(q.value(5)); },
  };
  for (const auto& fault : faults) {
    Program q = p;
    fault(q);
    EXPECT_FALSE(same_step(p, q)) << &fault - faults;
    EXPECT_FALSE(same_step(q, p)) << &fault - faults;
  }
}

TEST(Readers, EachNodeOnceAndInOrder) {
  Builder b;
  Val x = b.input("x", {{2}}), y = b.input("y", {{2}});
  add(x, x);
  Val z = tanh(x);
  add(z, x);
  const Program p = b.take();
  const Readers readers(p);
  EXPECT_EQ((std::vector<NodeId>(readers[x.id].begin(), readers[x.id].end())),
            (std::vector<NodeId>{0, 1, 2}));
  EXPECT_TRUE(readers[y.id].empty());
  EXPECT_EQ(readers[z.id].size(), 1u);
}

}  // namespace
}  // namespace pal
