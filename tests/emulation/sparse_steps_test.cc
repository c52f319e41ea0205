// Training with sparse maps on a GPU, emulated or (tests/gpu) real: what was stored sparse, and
// what had too little room, leaves the same bits as dense maps.
#include <gtest/gtest.h>

#include "core/accelerator.h"
#include "core/error.h"
#include "tests/emulation/emulation.h"
#include "tests/train/loop/sparse_training.h"

namespace pal::test {
namespace {

TEST(SparseStepsOnAGpu, TheBitsOfDenseMaps) {
  emulation::settings() = {};
  try {
    cuda_device();
  } catch (const UsageError& error) {
    GTEST_SKIP() << error.what();
  }
  for (const int accumulate : {1, 2}) {
    SparseSetup setup{.accumulate = accumulate, .margin = 1.03, .device = cuda_device()};
    Training sparse(setup_of(setup));
    setup.ssdc = false;
    Training plain(setup_of(setup));
    for (int64_t step = 0; step < 12; ++step) {  // sometimes many more nonzeros
      *setup.lowest = step % 5 < 3 ? 0.8f : -1.0f;
      ASSERT_EQ(plain.step(step), sparse.step(step)) << step;
      ASSERT_TRUE(plain.state() == sparse.state()) << step;
    }
    EXPECT_GT(sparse.overflows, 0);
    EXPECT_GT(sparse.sparse_runs - sparse.overflows, 0);
  }
}

}  // namespace
}  // namespace pal::test
