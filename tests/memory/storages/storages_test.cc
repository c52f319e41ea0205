// Who shares bytes with whom, on small programs read by eye.
#include <gtest/gtest.h>

#include "ops/elementwise/activations.h"
#include "ops/tensors/views.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

struct StorageToy {
  Builder b;
  Val x = b.input("x0", {Shape{16}});
  Val w = b.state("w0", {Shape{16}}, Role::weight);

  Storages storages(const StorageOptions& options = {}, StorageEffect* effect = nullptr) {
    return assign_storages(b.program(), {}, options, effect);
  }
};

TEST(Storages, InPlaceTakesADeadOperandOfTheSameSize) {
  StorageToy t;
  Val a = affine(t.x), c = affine(a), d = affine(c), e = plus(d, c);
  t.b.output("y", e);
  StorageEffect effect;
  Storages s = t.storages({}, &effect);
  EXPECT_NE(s.of[size_t(a.id)], s.of[size_t(t.x.id)]) << "inputs are never written";
  EXPECT_EQ(s.of[size_t(c.id)], s.of[size_t(a.id)]);
  EXPECT_NE(s.of[size_t(d.id)], s.of[size_t(c.id)]) << "c is read again";
  EXPECT_TRUE(s[s.of[size_t(e.id)]].output);
  EXPECT_EQ(s.of[size_t(e.id)], s.of[size_t(d.id)]) << "the first declared operand";
  EXPECT_EQ(effect.inplace, 2);
  EXPECT_EQ(effect.inplace_bytes, 128);
  Storages apart = t.storages({.inplace = false});
  EXPECT_NE(apart.of[size_t(c.id)], apart.of[size_t(a.id)]);
}

TEST(Storages, AnOperandReadTwiceByTheNodeIsNotTaken) {
  StorageToy t;
  Val a = affine(t.x), c = plus(a, a);
  Storages s = t.storages();
  EXPECT_NE(s.of[size_t(c.id)], s.of[size_t(a.id)]);
}

TEST(Storages, ProgramOutputsAreNotTaken) {
  StorageToy t;
  Val a = affine(t.x), c = affine(a);
  t.b.output("a", a);
  Storages s = t.storages();
  EXPECT_NE(s.of[size_t(c.id)], s.of[size_t(a.id)]);
}

TEST(Storages, ViewsAreWindowsAndKeepTheWholeAlive) {
  StorageToy t;
  Val a = reverse(t.x);
  auto h = halves(a);
  Val c = affine(view(h[1])), d = reverse(h[0]);
  Storages s = t.storages();
  EXPECT_EQ(s.of[size_t(h[0].id)], s.of[size_t(a.id)]);
  EXPECT_EQ(s.of[size_t(h[1].id)], s.of[size_t(a.id)]);
  EXPECT_EQ(s.offset[size_t(h[1].id)], 32);
  EXPECT_NE(s.of[size_t(c.id)], s.of[size_t(a.id)]) << "half a storage cannot be taken";
  EXPECT_NE(s.of[size_t(d.id)], s.of[size_t(a.id)]);
  Storages apart = t.storages({.windows = false});
  EXPECT_NE(apart.of[size_t(h[0].id)], apart.of[size_t(a.id)]);
}

TEST(Storages, ProducersWriteStraightIntoAStack) {
  StorageToy t;
  Val a = reverse(t.x), c = reverse(a), d = join({a, c, a, t.x});
  Storages s = t.storages();
  EXPECT_EQ(s.of[size_t(a.id)], s.of[size_t(d.id)]);
  EXPECT_EQ(s.of[size_t(c.id)], s.of[size_t(d.id)]);
  EXPECT_EQ(s.offset[size_t(a.id)], 0) << "stacked twice, it lies in the first place";
  EXPECT_EQ(s.offset[size_t(c.id)], 64);
  EXPECT_NE(s.of[size_t(t.x.id)], s.of[size_t(d.id)]) << "inputs are copied";
  auto writers = writers_of(t.b.program(), s);
  EXPECT_EQ(writers[size_t(s.of[size_t(d.id)])], (std::vector<NodeId>{0, 1, 2}));
}

// Views lie where their rows' boundaries are kept: 12 bytes in, rows of 12 do and rows of 16 do
// not.
TEST(Storages, ViewsKeepTheBoundariesOfTheirRows) {
  Builder b;
  Val rows = slice(relu(b.input("x", {{5, 3}})), 1, 5);
  Val wide = reshape(rows, {3, 4}), same = reshape(rows, {2, 2, 3});
  b.output("y", relu(wide)), b.output("z", relu(same));
  const Storages s = assign_storages(b.program(), {}, {});
  EXPECT_EQ(s.of[rows.id], s.of[same.id]);
  EXPECT_EQ(s.offset[same.id], 12);
  EXPECT_NE(s.of[rows.id], s.of[wide.id]) << "a copy";
  EXPECT_EQ(s.offset[wide.id], 0);
}

TEST(Storages, AStackWithinAStack) {
  StorageToy t;
  Val a = reverse(t.x), c = reverse(a), d = join({a, c}), e = reverse(d), f = join({e, d});
  Storages s = t.storages();
  EXPECT_EQ(s.of[size_t(c.id)], s.of[size_t(f.id)]);
  EXPECT_EQ(s.offset[size_t(c.id)], 128 + 64);
}

TEST(Storages, InPlaceIntoAStack) {
  StorageToy t;
  Val a = reverse(t.x), c = reverse(a), d = affine(c), e = join({a, d});
  Storages s = t.storages();
  EXPECT_EQ(s.of[size_t(c.id)], s.of[size_t(e.id)]) << "c is written where d will lie";
  EXPECT_EQ(s.offset[size_t(c.id)], 64);
}

TEST(Storages, StateIsOneStorageFromStartToEnd) {
  StorageToy t;
  Val g = affine(t.x), w1 = update(t.w, g), w2 = update(w1, g);
  Storages s = t.storages();
  EXPECT_EQ(s.of[size_t(w2.id)], s.of[size_t(t.w.id)]);
  EXPECT_EQ(s.of[size_t(w1.id)], s.of[size_t(t.w.id)]);
  EXPECT_TRUE(s[s.of[size_t(t.w.id)]].persistent);
}

TEST(Storages, AViewOfStateReadAfterTheUpdateIsACopy) {
  StorageToy t;
  Val before = view(t.w), after = view(t.w), g = affine(before);
  update(t.w, g);
  Val y = reverse(after);
  t.b.output("y", y);
  Storages s = t.storages();
  EXPECT_EQ(s.of[size_t(before.id)], s.of[size_t(t.w.id)]);
  EXPECT_NE(s.of[size_t(after.id)], s.of[size_t(t.w.id)]);
}

TEST(Storages, WritingStateThatIsStillReadIsAnError) {
  StorageToy t;
  Val g = affine(t.x);
  update(t.w, g);
  reverse(t.w);
  const std::string message = message_of([&] { t.storages(); });
  EXPECT_NE(message.find("node 2 [reverse] may still read"), std::string::npos) << message;
}

// A state that is there has a next value, and one that is not has none; both may be absent.
TEST(Storages, AnUpdateHasTheNextValueOfWhatItReads) {
  const auto said = [](bool old, bool next) {
    StorageToy t;
    const Val g = affine(t.x);
    update(t.w, g);
    Program p = t.b.take();
    Node& node = p.nodes.back();
    if (!old) node.in[0] = kNone;
    if (!next) node.out[0] = kNone;
    if (!old || !next) p.state.front().end = p.state.front().start;
    return message_of([&] { assign_storages(p); });
  };
  const std::string what = "must be the next value of a state slot";
  EXPECT_NE(said(true, false).find(what), std::string::npos);
  EXPECT_NE(said(false, true).find(what), std::string::npos);
  EXPECT_EQ(said(true, true), "");
  EXPECT_EQ(said(false, false), "");
}

TEST(Storages, WritingOverAnOutputIsAnError) {
  StorageToy t;
  t.b.output("y", t.w);
  update(t.w, affine(t.x));
  EXPECT_NE(message_of([&] { t.storages(); }).find("writes over output y"), std::string::npos);
}

TEST(Storages, WorkspacesAreStoragesOfTheirNode) {
  StorageToy t;
  reverse(t.x);
  Storages s = assign_storages(t.b.program(), ByNode<int64_t>{100});
  ASSERT_NE(s.workspace[0], kNone);
  EXPECT_EQ(s[s.workspace[0]].bytes, 100);
  EXPECT_EQ(s[s.workspace[0]].workspace_of, 0);
}

TEST(Storages, InPlaceWaitsForReadersOnOtherQueues) {
  StorageToy t;
  Val a = reverse(t.x), copy = reverse(a), c = affine(a);
  t.b.output("copy", copy);
  Program& p = t.b.program();
  p.node(1).queue = 1;
  p.node(1).waits = {0};
  EXPECT_NE(t.storages().of[size_t(c.id)], t.storages().of[size_t(a.id)]);
  p.node(2).waits = {1};
  EXPECT_EQ(t.storages().of[size_t(c.id)], t.storages().of[size_t(a.id)]);
}

TEST(Lifetimes, OneQueue) {
  StorageToy t;
  Val a = reverse(t.x), c = reverse(a), d = plus(c, a);
  t.b.output("y", d);
  Storages s = t.storages({.inplace = false});
  auto life = lifetimes_of(t.b.program(), s);
  auto of = [&](Val v) { return life[size_t(s.of[size_t(v.id)])]; };
  EXPECT_EQ(of(t.x).begin, 0);
  EXPECT_EQ(of(t.x).end, 6);
  EXPECT_EQ(of(a).begin, 0);
  EXPECT_EQ(of(a).end, 5);
  EXPECT_EQ(of(c).begin, 2);
  EXPECT_EQ(of(d).end, 6);
  Peak peak = peak_of(s, life);
  EXPECT_EQ(peak.bytes, 64 * (2 + 1 + 3)) << "input twice, state, and a, c, d";
  EXPECT_EQ(peak.moment, start_of(2));
  auto live = live_bytes(t.b.program(), s, life);
  EXPECT_EQ(*std::max_element(live.begin(), live.end()), peak.bytes);
  EXPECT_EQ(live[0], 64 * 4);
}

// What ends at the peak's moment has gone, and what begins there has come.
TEST(Lifetimes, ThePeakHoldsWhatIsAliveAtItsMoment) {
  Storages s;
  for (const int64_t bytes : {64, 128, 64}) s.list.push_back({.bytes = bytes});
  ByStorage<Lifetime> life(3, Lifetime{});
  life[0] = {0, 2}, life[1] = {2, 4}, life[2] = {4, 6};
  const Peak peak = peak_of(s, life);
  EXPECT_EQ(peak.bytes, 128);
  EXPECT_EQ(peak.moment, 2);
  EXPECT_EQ(peak.alive, std::vector<StorageId>{1});
}

// compute: a(0)  c(2)  d(3)  e(4, waits 1);  copy queue: host(1, waits 0)
TEST(Lifetimes, EndWhenComputeHasWaitedForTheCopy) {
  StorageToy t;
  Val a = reverse(t.x), host = reverse(a), c = reverse(t.x), d = reverse(c), e = reverse(d);
  Program& p = t.b.program();
  p.node(1).queue = 1;
  p.node(1).waits = {0};
  auto end_of_a = [&] {
    Storages s = t.storages();
    return lifetimes_of(p, s)[size_t(s.of[size_t(a.id)])].end;
  };
  EXPECT_EQ(end_of_a(), start_of(5)) << "nobody waits: the end of the step";
  p.node(4).waits = {1};
  EXPECT_EQ(end_of_a(), start_of(4));
  Storages s = t.storages();
  auto life = lifetimes_of(p, s)[size_t(s.of[size_t(host.id)])];
  EXPECT_EQ(life.begin, done_of(0)) << "it may be written as soon as node 0 is done";
  (void)e;
}

}  // namespace
}  // namespace pal::test
