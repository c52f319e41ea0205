// Bits as a choice of Echo's, beside keeping a value and making it again.
#include <gtest/gtest.h>

#include "core/prepare.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/passes/encode.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "tests/memory/bits.h"
#include "tests/memory/passes/encode_toys.h"

namespace pal::test {
namespace {

// As compiling does it, on a processor's own terms: the footprint is that of the compiled step.
std::string echoed(const Program& p, std::string* note = nullptr, double exchange = 64) {
  auto footprint = [](const Program& q) { return peak_bytes(q); };
  const Program out = recompute(p, Recompute::echo, footprint, note,
                                {.heavy = kHeavy, .exchange = exchange, .overhead = 1e9});
  verify(out);
  EXPECT_LE(peak_bytes(out), peak_bytes(p));
  EXPECT_EQ(difference_of(p, bits_of(p), bits_of(out)), "");
  return ops_in(out);
}

TEST(EchoBits, AReluThatIsReadByItsGradientAlone) {
  std::string note;
  const std::string last =
      echoed(step_of(1, [](Val x, auto& w) { return scale(relu(matmul(x, w[0])), 0.5f); }), &note);
  EXPECT_EQ(last.substr(0, 21), "matmul relu +to_bits ") << last;
  EXPECT_EQ(times(last, "*"), 0) << last;
  EXPECT_EQ(note.find("0 nodes recomputed, 1 values kept as bits"), 0u) << note;
}

TEST(EchoBits, NotWhereTheValueIsNeededAnyway) {
  const std::string ops = echoed(step_of(3, [](Val x, auto& w) {
    Val y = x;
    for (Val wi : w) y = relu(matmul(y, wi));
    return y;
  }));
  EXPECT_EQ(times(ops, "+to_bits"), 1) << ops;  // the last alone, which no product reads
}

TEST(EchoBits, RecomputingFromWhatIsThereAnywayWins) {
  // The product's result is read by the gradient of its square; the ReLU is made again from it.
  const std::string ops = echoed(step_of(2, [](Val x, auto& w) {
    Val h = matmul(x, w[0]);
    Val y = scale(relu(h), 0.5f);
    return add(matmul(y, w[1]), mul(h, h));
  }));
  EXPECT_EQ(times(ops, "+to_bits"), 0) << ops;
  EXPECT_GE(times(ops, "*relu"), 1) << ops;
}

TEST(EchoBits, OffKeepsThemWhole) {
  const Program p = step_of(2, [](Val x, auto& w) {
    return scale(relu(matmul(scale(relu(matmul(x, w[0])), 2), w[1])), 2);
  });
  auto footprint = [](const Program& q) { return peak_bytes(q); };
  auto encoders = [&](Recompute method, bool bits) {
    const RecomputeOptions options{.heavy = kHeavy, .overhead = 1e9, .bits = bits};
    return times(ops_in(recompute(p, method, footprint, nullptr, options)), "+");
  };
  EXPECT_EQ(encoders(Recompute::echo, true), 1);
  EXPECT_EQ(encoders(Recompute::echo, false), 0);
  EXPECT_EQ(encoders(Recompute::mirror, true), 0);
}

TEST(EchoBits, ReluBeforePoolingIsBits) {  // Gist, figure 4b
  const std::string ops = echoed(convolutional(false));
  EXPECT_EQ(times(ops, "relu +to_bits max_pool"), 1) << ops;
  EXPECT_EQ(times(ops, "+to_bits"), 1) << ops;  // the first ReLU's output is the product's operand
}

TEST(EchoBits, BatchNormAndReluAreRecomputed) {
  const std::string ops = echoed(convolutional(true));
  // The gradient of batch norm needs its input, from which its output can be made again.
  EXPECT_GE(times(ops, "*batch_norm"), 1) << ops;
  EXPECT_GE(times(ops, "*relu"), 1) << ops;
}

TEST(EchoBits, CompiledStepsPlanAndCheck) {
  const Program p = convolutional(false);
  KernelCache cache{Device{}};
  const StateLayout layout(p);
  const int64_t without = compile(p, cache, layout).plan.device().bytes;
  EXPECT_LE(compile(p, cache, layout, {.recompute = Recompute::echo}).plan.device().bytes, without);
  auto bits = [&](bool fuse) {
    const Program encoded = encode(p, choose_forms(p, kBits));
    return count_of(compile(encoded, cache, layout, {.fuse_epilogues = fuse}).program, "to_bits");
  };
  EXPECT_EQ(bits(false), 1);
  EXPECT_EQ(bits(true), 0);  // the pool's gradient has done what relu's would
}

}  // namespace
}  // namespace pal::test
