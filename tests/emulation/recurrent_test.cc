// GRU layers on the emulated GPU: cuDNN's where it is found and takes them, step by step where not,
// beside the processor's unrolled cells. In a CUDA build, the same on a real GPU as far as it can
// be told.
#include <gtest/gtest.h>

#include "tests/emulation/fixture.h"
#include "tests/support/gru_programs.h"

namespace pal::test {
namespace {

class Recurrent : public OnGpu {
 protected:
  // Calls of cuDNN's that running these layers with their gradients made.
  int64_t expect_as_on_cpu(const Device& device) {
    const int64_t before = emulation::layers_run();
    for (const bool backwards : {false, true}) {
      for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
        for (const std::vector<float>& lengths :
             {std::vector<float>{0, 5, 2, 1}, std::vector<float>{}}) {
          const GruCase c{5, 4, 3, 6, backwards, lengths, type};
          KernelCache cache(device);
          const auto want = run_gru(c, gru_program(c, false));
          const auto got = run_gru(c, gru_program(c, true), &cache);
          const double near = type == DType::f32 ? 5e-6 : type == DType::f16 ? 0.006 : 0.04;
          for (size_t i = 0; i < want.size(); ++i) {
            EXPECT_LT(gru_difference(want, got, i), near)
                << kGruOutputs[i] << " of " << describe(c);
          }
        }
      }
    }
    return emulation::layers_run() - before;
  }
};

constexpr int64_t kLayers = 12;  // of expect_as_on_cpu

TEST_F(Recurrent, AreCudnnsWhereItIsFound) {
  const int64_t calls = expect_as_on_cpu(cuda_device());
  if (!emulation::real()) {
    EXPECT_EQ(calls, 3 * kLayers);
  }
}

TEST_F(Recurrent, GoStepByStepWithoutIt) {
  if (emulation::real()) GTEST_SKIP() << "the libraries are what they are";
  Device off = cuda_device();
  off.cudnn = false;
  EXPECT_EQ(expect_as_on_cpu(off), 0);
  emulation::settings().cudnn = false;
  EXPECT_EQ(expect_as_on_cpu(cuda_device()), 0);
  emulation::settings() = {};
  emulation::settings().cudnn_layers = false;  // it is found, and takes no such layer
  EXPECT_EQ(expect_as_on_cpu(cuda_device()), 0);
}

// Where the library keeps more than the tensor holds, its gradient runs the layer once more.
TEST_F(Recurrent, RunAgainWhereTheirReserveIsLarge) {
  if (emulation::real()) GTEST_SKIP() << "the libraries are what they are";
  emulation::settings().cudnn_reserve = 60;
  EXPECT_EQ(expect_as_on_cpu(cuda_device()), 4 * kLayers);
}

}  // namespace
}  // namespace pal::test
