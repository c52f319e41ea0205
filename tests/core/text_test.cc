// Numbers as text.
#include "core/text.h"

#include <gtest/gtest.h>

namespace pal {
namespace {

TEST(Text, BytesHaveThreeDigitsAndTheUnitThatFits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(9'990), "9.99 kB");
  EXPECT_EQ(format_bytes(10'000), "10.0 kB");
  EXPECT_EQ(format_bytes(99'900), "99.9 kB");
  EXPECT_EQ(format_bytes(100'000), "100 kB");
  EXPECT_EQ(format_bytes(999'499), "999 kB");
  EXPECT_EQ(format_bytes(999'500), "1.00 MB");
  EXPECT_EQ(format_bytes(1'420'000'000), "1.42 GB");
  EXPECT_EQ(format_bytes(5'000'000'000'000'000), "5000 TB");
}

TEST(Text, FloatsAreAsShortAsTheyReadBack) {
  EXPECT_EQ(print_float(0.1), "0.1");
  EXPECT_EQ(print_float(-1e-300), "-1e-300");
  EXPECT_EQ(print_float(double(0.1f)), "0.10000000149011612");
}

}  // namespace
}  // namespace pal
