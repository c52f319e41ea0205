// relu or clip and their bits in one pass: what the two operators make, to the bit.
#include "ops/tensors/clip_bits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/builder.h"
#include "ops/elementwise/activations.h"
#include "ops/tensors/casts.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// At and around the ends of the interval, which may be 0 of either sign.
TEST(ClipBits, IsClipAndToBits) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [lo, hi] :
         {std::pair(0.0f, kInf), std::pair(-2.0f, 0.0f), std::pair(-2.0f, -0.0f),
          std::pair(-0.0f, 2.0f), std::pair(0.0f, 2.0f), std::pair(-0.1f, 1.7f)}) {
      std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, NAN};
      for (const float end : {lo, hi}) {
        for (const float near : {-0.01f, -0x1p-20f, 0.0f, 0x1p-20f, 0.01f}) x.push_back(end + near);
      }
      Builder b;
      const Val in = b.input("x", {{int64_t(x.size())}, type});
      const Val y = clip(in, lo, hi);
      b.output("y", y), b.output("bits", to_bits(y, lo, hi));
      const std::vector<Val> fused = b.emit(clip_bits_op, {in}, IntervalAttrs{lo, hi});
      b.output("fused y", fused[0]), b.output("fused bits", fused[1]);
      Evaluator eval(b.take());
      eval.set("x", x);
      eval.run();
      for (const std::string name : {"y", "bits"}) {
        EXPECT_EQ(eval.bytes(eval.find(name)), eval.bytes(eval.find("fused " + name)))
            << name << " of " << lo << " to " << hi << " in " << to_string(type);
      }
    }
  }
}

}  // namespace
}  // namespace pal::test
