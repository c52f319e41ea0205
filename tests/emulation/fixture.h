// A test on a GPU, emulated or (tests/gpu) real: with the settings that are there at first, and
// left out where there is none.
#pragma once
#include <gtest/gtest.h>

#include "core/device.h"
#include "core/error.h"
#include "tests/emulation/emulation.h"

namespace pal::test {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    emulation::settings() = {};
    try {
      cuda_device();
    } catch (const UsageError& error) {
      GTEST_SKIP() << error.what();
    }
    prepare();
  }
  virtual void prepare() {}  // where there is one
  void TearDown() override { emulation::settings() = {}; }
};

}  // namespace pal::test
