// Values in other types: rounding, and bits behind the last element.
#include "ops/tensors/casts.h"

#include <gtest/gtest.h>

#include <limits>

#include "ops/tensors/fill.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

using Floats = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Casts, CastRoundsAndReturnsWhatNeedsNone) {
  Builder builder;
  Val x = builder.input("x", {{3}});
  EXPECT_EQ(cast(x, DType::f32).id, x.id);
  builder.output("y", cast(cast(x, DType::f16), DType::f32));
  test::Evaluator eval(builder.take());
  eval.set("x", {0.1f, 65520, -2049});
  eval.run();
  EXPECT_EQ(eval.floats("y"), (Floats{0x1.998p-4f, kInf, -2048}));
}

TEST(Casts, BitsBehindTheLastElementAreZero) {
  Builder builder;
  builder.output("bits", to_bits(builder.input("x", {{11}}), 0));
  builder.output("ones", fill(builder, {{11}, DType::bit}, 1));
  test::Evaluator eval(builder.take());
  eval.set("x", Floats(11, 1));
  eval.run();
  for (const char* name : {"bits", "ones"}) {
    const auto bytes = eval.bytes(eval.find(name));
    ASSERT_EQ(bytes.size(), 2u);
    EXPECT_EQ(int(bytes[0]), 0xff);
    EXPECT_EQ(int(bytes[1]), 0x07);
  }
}

}  // namespace
}  // namespace pal
