// A test that counts what kernels on the emulated GPU do; left out where accesses are not watched.
#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "core/kernel_counter.h"
#include "tests/emulation/emulation.h"

namespace pal::test {

class CountsKernels : public testing::Test {
 protected:
  void SetUp() override {
#ifndef PAL_EMULATION_CHECKS
    GTEST_SKIP() << "accesses are not watched in this build";
#endif
    emulation::settings() = {};
    counter_ = make_kernel_counter();
  }
  void TearDown() override { emulation::settings() = {}; }

  std::unique_ptr<KernelCounter> counter_;
};

}  // namespace pal::test
