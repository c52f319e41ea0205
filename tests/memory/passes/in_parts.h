// A step, and the same with nodes in parts of the batch: verified, and nearly the same numbers.
#pragma once
#include <gtest/gtest.h>

#include <utility>

#include "core/verify.h"
#include "memory/passes/batch_parts.h"
#include "tests/memory/bits.h"

namespace pal::test {

struct InParts {
  InParts(Program step, int64_t parts, double tolerance = 1e-6)
      : whole(std::move(step)), split(in_batch_parts(whole, parts, &done)) {
    verify(split);
    EXPECT_LT(largest_difference(whole, bits_of(whole), bits_of(split)), tolerance);
  }

  const Program whole;
  BatchParts done;
  const Program split;
};

}  // namespace pal::test
