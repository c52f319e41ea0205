// Copies of weights that are made together: which, where, and as one node.
#include "memory/schedule/early_copies.h"

#include <gtest/gtest.h>

#include "core/verify.h"
#include "memory/passes/fuse_updates.h"
#include "ops/tensors/casts.h"
#include "tests/memory/running.h"

namespace pal::test {
namespace {

// Each weight is copied right before it is read.
Program copied_late() {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  for (int i = 0; i < 3; ++i) {
    Val w = b.state("w" + std::to_string(i), {Shape{64}}, Role::weight);
    x = affine(x);
    b.output("y" + std::to_string(i), cast(w, i == 1 ? DType::f16 : DType::bf16));
  }
  b.output("z", cast(x, DType::bf16));
  b.output("loss", sum(x));
  return b.take();
}

TEST(EarlyCopies, OfOneTypeComeBesideEachOther) {
  const Program p = copied_late();
  EXPECT_EQ(ops_of(p), "affine cast affine cast affine cast cast sum");
  std::string note;
  const Program early = early_copies(p, &note).value();
  EXPECT_EQ(ops_of(early), "affine cast cast cast affine affine cast sum") << "that of x stays";
  EXPECT_EQ(note, "3 copies of weights made together");
  EXPECT_NO_THROW(verify(early));
  const Program fused = fuse_updates(early).value();
  EXPECT_EQ(ops_of(fused), "affine cast cast affine affine cast sum");
  EXPECT_EQ(fused.node(1).in.size(), 2u);
  EXPECT_EQ(reference(fused, 3), reference(p, 3));
  EXPECT_FALSE(early_copies(early)) << "they are there";
}

// What is made again late is made late to save room; what an update made is not there before.
TEST(EarlyCopies, OthersStay) {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  Val v = b.state("w0", {Shape{64}}, Role::weight), w = b.state("w1", {Shape{64}}, Role::weight);
  b.output("y", cast(v, DType::bf16));
  b.output("loss", sum(x));
  {
    Builder::Within again(b, Phase::recompute);
    b.output("again", cast(w, DType::bf16));
  }
  Val now = update(v, reverse(x));
  b.output("new", cast(now, DType::bf16));
  EXPECT_FALSE(early_copies(b.program()));
}

}  // namespace
}  // namespace pal::test
