// Operands of whole steps rounded to TF32, where the device is told to.
#include <gtest/gtest.h>

#include "core/builder.h"
#include "memory/run/program_set.h"
#include "ops/convolution/conv2d.h"
#include "ops/products/matmul.h"
#include "tests/emulation/steps_fixture.h"

namespace pal::test {
namespace {

// TF32 is what it says: f32 operands lose their last 13 bits, and sums do not.
TEST_F(Steps, Tf32RoundsTheOperandsOfProducts) {
  Device rounded = cuda_device();
  rounded.tf32 = true;
  auto product = [](const Device& device, float x) {
    Builder b;
    // Large enough for tensor cores to be worth while: a library may do without for small ones.
    const int64_t n = emulation::real() ? 256 : 16;
    b.output("y", matmul(b.input("x", {{n, n}}), b.input("w", {{n, n}})));
    ProgramSet set({}, device);
    Executable& step = set.add("step", b.take());
    std::fill_n(reinterpret_cast<float*>(step.input("x")), n * n, 0.0f);
    for (int64_t k = 0; k < 16; ++k) {  // sixteen terms a sum
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(step.input("x"))[i * n + k] = x;
    }
    std::fill_n(reinterpret_cast<float*>(step.input("w")), n * n, 1.0f);
    step.run();
    return *step.output("y");
  };
  EXPECT_EQ(product(cuda_device(), 1 + 0x1p-20f), 16 + 0x1p-16f);
  EXPECT_EQ(product(rounded, 1 + 0x1p-20f), 16);
  EXPECT_EQ(product(rounded, 1 + 0x1p-10f), 16 + 0x1p-6f);
}

TEST_F(Steps, Tf32RoundsTheOperandsOfConvolutions) {
  auto convolution = [](const Device& device, float x, bool biased) {
    Builder b;
    Val bias = biased ? b.input("bias", {{16}}) : Val{};
    b.output("y", conv2d(b.input("x", {{1, 4, 4, 16}}), b.input("w", {{16, 1, 1, 16}}), {}, bias));
    ProgramSet set({}, device);
    Executable& step = set.add("step", b.take());
    std::fill_n(reinterpret_cast<float*>(step.input("x")), 256, x);
    std::fill_n(reinterpret_cast<float*>(step.input("w")), 256, 1.0f);
    if (biased) std::fill_n(reinterpret_cast<float*>(step.input("bias")), 16, 0.0f);
    step.run();
    return *step.output("y");
  };
  for (const bool cudnn : {true, false}) {
    for (const bool biased : {false, true}) {
      Device device = cuda_device();
      device.cudnn = cudnn;
      EXPECT_EQ(convolution(device, 1 + 0x1p-20f, biased), 16 + 0x1p-16f);
      if (cudnn && emulation::real()) continue;  // it may use tensor cores, and need not
      device.tf32 = true;
      EXPECT_EQ(convolution(device, 1 + 0x1p-20f, biased), 16);
    }
  }
}

}  // namespace
}  // namespace pal::test
