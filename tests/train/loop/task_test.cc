// Which rows a validation shows.
#include "train/loop/task.h"

#include <gtest/gtest.h>

namespace pal {
namespace {

TEST(Task, SamplesAreSpreadEvenlyFromTheFirstRowToTheLast) {
  using Rows = std::vector<size_t>;
  EXPECT_EQ(sample_rows(0), Rows());
  EXPECT_EQ(sample_rows(1), Rows{0});
  EXPECT_EQ(sample_rows(3), (Rows{0, 1, 2}));
  EXPECT_EQ(sample_rows(11), (Rows{0, 2, 5, 7, 10}));
}

}  // namespace
}  // namespace pal
