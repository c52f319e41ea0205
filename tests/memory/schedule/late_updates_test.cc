// Updates that wait for each other: how many, how far, and the bits of the step.
#include "memory/schedule/late_updates.h"

#include <gtest/gtest.h>

#include "core/print.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/passes/fuse_updates.h"
#include "memory/schedule/schedule.h"
#include "ops/sums/gates.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 40;

// A gradient each, one after the other, with the update right after it.
Program updated_early(int count) {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  b.output("loss", sum(x));
  std::vector<Val> w;
  for (int i = 0; i < count; ++i) {
    w.push_back(b.state("w" + std::to_string(i), {Shape{64}}, Role::weight));
  }
  Builder::Within backward(b, Phase::backward);
  for (const Val& each : w) {
    Val gradient = reverse(x);
    b.program().value(gradient.id).role = Role::weight_gradient;
    update(each, gradient);
    x = affine(x);
  }
  return b.take();
}

TEST(LateUpdates, AllWaitForTheLastWhereThereIsRoom) {
  const Program p = updated_early(3);
  std::string note;
  const Program late = late_updates(p, kPlenty, {}, {}, &note).value();
  EXPECT_EQ(ops_of(late), "sum reverse affine reverse affine reverse update update update affine");
  EXPECT_EQ(note, "2 updates wait for others");
  EXPECT_NO_THROW(verify(late));
  EXPECT_EQ(reference(late, 3), reference(p, 3));
  EXPECT_EQ(fuse_updates(late)->nodes.size(), p.nodes.size() - 2);
}

TEST(LateUpdates, ComeTogetherInSeveralPlacesWhereThereIsRoomForSome) {
  const Program p = updated_early(6);
  const int64_t one = 256, least = peak_bytes(p);
  EXPECT_FALSE(late_updates(p, least, {}, {})) << "no room";
  const Program late = late_updates(p, least + one, {}, {}).value();
  EXPECT_EQ(ops_of(late),
            "sum reverse affine reverse update update affine reverse affine reverse update update "
            "affine reverse affine reverse update update affine");
  EXPECT_EQ(peak_bytes(late), least + one);
  const Program later = late_updates(p, least + 2 * one, {}, {}).value();
  EXPECT_EQ(peak_bytes(later), least + 2 * one);
  EXPECT_EQ(fuse_updates(later)->nodes.size(), p.nodes.size() - 4) << "threes";
}

TEST(LateUpdates, DoNotWaitPastAReaderOfTheNewState) {
  Builder b;
  Val x = b.input("x0", {Shape{8}});
  Val v = b.state("w0", {Shape{8}}, Role::weight), w = b.state("w1", {Shape{8}}, Role::weight);
  b.output("loss", sum(x));
  Val now = update(v, reverse(x));
  b.output("y", affine(now));
  update(w, reverse(x));
  EXPECT_FALSE(late_updates(b.program(), kPlenty, {}, {}));
}

TEST(LateUpdates, OneThatReadsWhatAnotherWroteComesAfterIt) {
  Builder b;
  Val x = b.input("x0", {Shape{8}});
  Val v = b.state("w0", {Shape{8}}, Role::weight), w = b.state("w1", {Shape{8}}, Role::weight);
  Val u = b.state("w2", {Shape{8}}, Role::weight);
  b.output("loss", sum(x));
  Val now = update(v, reverse(x));
  update(w, now);
  update(u, reverse(x));
  const Program late = late_updates(b.program(), kPlenty, {}, {}).value();
  EXPECT_NO_THROW(verify(late));
  EXPECT_EQ(ops_of(late), "sum reverse reverse update update update");
  EXPECT_EQ(late.nodes.back().out[0], b.program().state[1].end) << "w, after v and u";
  EXPECT_EQ(reference(late, 2), reference(b.program(), 2));
}

// Sums of squares come together before what reads them, and updates behind it.
TEST(LateUpdates, SumsOfSquaresWaitForEachOtherToo) {
  Builder b;
  Val x = b.input("x0", {Shape{64}}), scalars = b.input("scalars", scalars_spec());
  b.output("loss", sum(x));
  std::vector<Val> w, gradients, squares;
  for (int i = 0; i < 3; ++i) {
    w.push_back(b.state("w" + std::to_string(i), {Shape{64}}, Role::weight));
    gradients.push_back(reverse(x));
    squares.push_back(sum_of_squares(gradients.back()));
    x = affine(x);
  }
  const Val gate = clip_norm_gate(scalars, {}, squares);
  for (size_t i = 0; i < 3; ++i) update(w[i], gradients[i]);
  b.output("gate", gate);
  const Program p = b.take();
  const Program late = late_updates(p, kPlenty, {}, {}).value();
  EXPECT_NO_THROW(verify(late));
  EXPECT_EQ(ops_of(late),
            "sum reverse affine reverse affine reverse sum_of_squares sum_of_squares "
            "sum_of_squares affine clip_norm_gate update update update");
  const Program fused = fuse_updates(late).value();
  EXPECT_NO_THROW(verify(fused));
  EXPECT_EQ(fused.nodes.size(), p.nodes.size() - 4);
  EXPECT_EQ(peak_bytes(late), peak_bytes(p)) << "the gradients wait for their updates anyway";
}

TEST(LateUpdates, RandomProgramsKeepToTheLimitAndTheirBits) {
  int moved = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Program p = schedule_early_updates(random_program(
        seed, {.nodes = 40, .states = 6, .copies = seed % 5 == 0, .gated = seed % 3 == 0}));
    const int64_t peak = peak_bytes(p), limit = seed % 2 == 0 ? peak : peak + peak / 8;
    const std::optional<Program> late = late_updates(p, limit, {}, {});
    if (!late) continue;
    ++moved;
    ASSERT_NO_THROW(verify(*late)) << "seed " << seed;
    ASSERT_LE(peak_bytes(*late), limit) << "seed " << seed;
    ASSERT_EQ(reference(*late, 2), reference(p, 2)) << "seed " << seed;
  }
  EXPECT_GT(moved, 20);
}

}  // namespace
}  // namespace pal::test
