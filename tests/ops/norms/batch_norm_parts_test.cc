// Batch norm's second half, which is what a clone of it costs.
#include <gtest/gtest.h>

#include "ops/norms/batch_norm.h"

namespace pal::test {
namespace {

// As many operations and bytes for each element, however many channels they are shared out to.
TEST(BatchNormApply, CostsAPassOverTheImageAndAnotherForAResidual) {
  const auto cost = [](const Shape& shape, bool residual) {
    const TensorSpec x{shape}, channel{{shape.back()}};
    Specs in{x, channel, channel, channel, channel};
    if (residual) in.push_back(x);
    return cost_of(batch_norm_apply_op, in, Specs{x}, BatchNormApplyAttrs{residual});
  };
  const Cost few = cost({60, 2}, false), many = cost({2, 60}, false);
  EXPECT_GE(few.flops, 2 * 120);  // a product and a sum
  EXPECT_EQ(few.flops, many.flops);
  EXPECT_EQ(few.bytes, many.bytes);
  EXPECT_EQ(cost({60, 2}, true).flops, few.flops + 120);
  EXPECT_EQ(cost({60, 2}, true).bytes, few.bytes + 120 * 4);
}

}  // namespace
}  // namespace pal::test
