// Forward nodes that wait for the gradients that need them: what moves and what stays, and that no
// bit changes and no peak rises.
#include "memory/schedule/delay_forward.h"

#include <gtest/gtest.h>

#include "core/print.h"
#include "core/verify.h"
#include "memory/front/choose.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

// The toys' join of eight copies is the output layer: 64 -> 512. One loss for each part of x0,
// their sum; then the gradients, last part first, each adding to the weight's.
Program in_parts(int parts) {
  Builder b;
  Val w = b.state("w0", {Shape{512}}, Role::weight);
  std::vector<Val> logits;
  Val loss;
  Val x = affine(b.input("x0", {Shape{64}}));
  for (int k = 0; k < parts; ++k) {
    Val part = affine(x, float(k));
    logits.push_back(plus(w, reverse(join(std::vector<Val>(8, part)))));
    Val l = sum(logits.back());
    loss = loss ? plus(loss, l) : l;
  }
  b.output("loss", loss);
  Builder::Within backward(b, Phase::backward);
  Val g;
  for (size_t k = logits.size(); k-- > 0;) {
    Val d = reverse(logits[k]);
    g = g ? plus(g, d) : d;
  }
  update(w, g, gate(loss));
  return b.take();
}

TEST(DelayForward, OnePartAtATime) {
  const Program p = in_parts(3);
  std::string note;
  const std::optional<Program> out = delay_forward(p, &note);
  ASSERT_TRUE(out);
  EXPECT_NO_THROW(verify(*out));
  const std::string part = "affine join reverse add sum ", gradient = "reverse ";
  EXPECT_EQ(ops_of(*out), "affine " + part + gradient + part + gradient + "add " + part +
                              "add add " + gradient + "add gate update")
      << "the losses are added as soon as they are there, before the last gradient";
  EXPECT_EQ(note, "12 forward nodes wait for the gradients that need them");
  EXPECT_EQ(reference(*out, 2), reference(p, 2));
  const Program many = in_parts(8);  // logits of 2 KiB each; five less are alive, or more
  EXPECT_LE(peak_bytes(*delay_forward(many)), peak_bytes(many) - 5 * 2048);
}

// What clones are chosen in is in the order of demand where the step may be put in another order at
// all.
TEST(DelayForward, ComesBeforeClonesWhereOrderIsFree) {
  const Program p = in_parts(4);
  EXPECT_EQ(ops_of(before_clones(p, {})), ops_of(*delay_forward(p)));
  EXPECT_EQ(ops_of(before_clones(p, {.schedule = Schedule::program})), ops_of(p));
}

TEST(DelayForward, NothingToDelay) {
  std::string note = "untouched";
  EXPECT_FALSE(delay_forward(in_parts(1), &note)) << "one part: its gradient needs it all";
  const Program p = *delay_forward(in_parts(3));
  EXPECT_FALSE(delay_forward(p, &note)) << "done already";
  Program forward = in_parts(3);
  for (Node& node : forward.nodes) node.phase = Phase::forward;
  EXPECT_FALSE(delay_forward(forward, &note));
  EXPECT_EQ(note, "untouched");
}

TEST(DelayForward, NothingMovesPastAnUpdate) {
  for (bool updated : {false, true}) {
    Builder b;
    Val w = b.state("w0", {Shape{64}}, Role::weight);
    Val x = b.input("x0", {Shape{64}});
    Val aside = plus(w, x);  // read by the last gradient alone
    Val y = affine(x);
    Val loss = sum(y);
    b.output("loss", loss);
    Builder::Within backward(b, Phase::backward);
    Val g = reverse(y);
    if (updated) update(w, g, gate(loss));
    b.output("d", reverse(aside));
    const std::optional<Program> out = delay_forward(b.program());
    ASSERT_TRUE(out);
    EXPECT_NO_THROW(verify(*out));
    EXPECT_EQ(ops_of(*out), updated ? "affine sum reverse gate add update reverse"
                                    : "affine sum reverse add reverse");
  }
}

TEST(DelayForward, RandomProgramsKeepTheirBits) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Program p = random_program(seed, {.nodes = 60, .states = 3, .copies = seed % 10 == 0});
    for (NodeId n = 0; n < p.node_count(); ++n) {
      Node& node = p.node(n);
      if (node.op->writes_state) node.phase = Phase::update;
      // The second half, or every third node: phases as no recorder would mix them.
      const bool backward = seed % 3 == 0 ? n % 3 == 1 : n >= p.node_count() / 2;
      if (node.phase == Phase::forward && backward) node.phase = Phase::backward;
    }
    const std::optional<Program> out = delay_forward(p);
    if (!out) continue;
    ++changed;
    ASSERT_NO_THROW(verify(*out)) << "seed " << seed;
    ASSERT_EQ(reference(*out, 2), reference(p, 2)) << "seed " << seed;
  }
  EXPECT_GT(changed, 30);
}

}  // namespace
}  // namespace pal::test
