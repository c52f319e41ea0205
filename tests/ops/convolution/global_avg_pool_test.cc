// Global average pooling: its gradient has an image to fill.
#include "ops/convolution/global_avg_pool.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace pal::test {
namespace {

TEST(GlobalAvgPool, ItsGradientRefusesAnImageWithoutPixels) {
  const auto image = [](int64_t height, int64_t width) {
    return infer_specs(global_avg_pool_grad_op, Specs{{{2, 5}}}, ImageSizeAttrs{height, width});
  };
  EXPECT_EQ(image(1, 1), (Specs{{{2, 1, 1, 5}}}));
  for (const int64_t none : {0, -1}) {
    EXPECT_THROW(image(none, 1), ProgramError) << none;
    EXPECT_THROW(image(1, none), ProgramError) << none;
  }
}

}  // namespace
}  // namespace pal::test
