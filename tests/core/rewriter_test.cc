// What a pass is promised by Rewriter and by ids: numbers that come out right, and that do not mix.
#include "core/rewriter.h"

#include <gtest/gtest.h>

#include <limits>
#include <type_traits>

#include "core/builder.h"
#include "core/error.h"
#include "core/verify.h"
#include "ops/elementwise/activations.h"

namespace pal {
namespace {

// y = tanh(relu(x)); the second node waits for the first.
Program two_nodes() {
  Builder b;
  Val x = b.input("x", {{4}});
  b.output("y", tanh(relu(x)));
  Program p = b.take();
  p.node(1).waits = {0};
  return p;
}

TEST(Rewriter, RenumbersWaitsAndProducersBehindWhatIsInserted) {
  const Program p = two_nodes();
  Rewriter out(p);
  Node extra = p.node(0);
  extra.out = {out.add(p.value(p.node(0).out[0]))};
  EXPECT_EQ(out.insert(extra), 0);
  EXPECT_EQ(out.keep(0), 1);
  EXPECT_EQ(out.keep(1), 2);
  const Program q = out.finish();
  EXPECT_EQ(q.node(2).waits, (std::vector<NodeId>{1}));
  EXPECT_EQ(q.value(q.output("y")).producer, 2);
  EXPECT_NO_THROW(verify(q));
}

TEST(Rewriter, AWaitForOneOfSeveralIsAWaitForWhatReplacedThem) {
  Program p = two_nodes();
  p.nodes.push_back(p.node(1));
  p.node(2).waits = {1};
  const NodeId both[] = {0, 1};
  Rewriter out(p);
  out.replace(both, p.node(0));
  out.keep(2);
  EXPECT_EQ(out.written().node(1).waits, (std::vector<NodeId>{0}));
}

TEST(Rewriter, AWaitForADroppedNodeIsRefused) {
  const Program p = two_nodes();
  Rewriter out(p);
  EXPECT_THROW(out.keep(1), ProgramError);
}

TEST(Rewriter, WhatADroppedNodeMadeHasNoProducer) {
  const Program p = two_nodes();
  const ValueId gone = p.node(0).out[0];
  Rewriter out(p);
  Node node = p.node(1);
  node.in = {p.input("x")}, node.waits.clear();
  out.replace(1, node);
  Program q = out.finish();
  EXPECT_EQ(q.value(gone).producer, kNone);
  EXPECT_NO_THROW(verify(q));
  q.value(gone).producer = 0;
  EXPECT_THROW(verify(q), ProgramError);
}

#ifdef PAL_CHECK_IDS
TEST(IdsDeathTest, AnIndexThatIsNotThereIsNoAccess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  ByNode<int> numbers(3, 7);
  EXPECT_DEATH(numbers[3] = 0, "number < this->size");
  EXPECT_DEATH(numbers[kNone] = 0, "number < this->size");
}
#endif

TEST(Ids, KindsDoNotMix) {
  static_assert(!std::is_convertible_v<ValueId, NodeId>);
  static_assert(!std::is_convertible_v<NodeId, StorageId>);
  static_assert(std::is_convertible_v<int32_t, NodeId> && std::is_convertible_v<NodeId, int32_t>);
  EXPECT_EQ(NodeId(), kNone);
  EXPECT_EQ(std::numeric_limits<NodeId>::max(), std::numeric_limits<int32_t>::max());
  ByNode<int> numbers(3, 7);
  EXPECT_EQ(numbers.next_id(), 3);
  EXPECT_EQ(numbers.add(8), 3);
  int sum = 0;
  for (NodeId n : numbers.ids()) sum += numbers[n];
  EXPECT_EQ(sum, 29);
}

}  // namespace
}  // namespace pal
