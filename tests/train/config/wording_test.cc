// Numbers and words as people read them.
#include "train/config/wording.h"

#include <gtest/gtest.h>

namespace pal {
namespace {

TEST(Wording, GroupsThousands) {
  EXPECT_EQ(thousands(0), "0");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(thousands(5120), "5,120");
  EXPECT_EQ(thousands(1234567), "1,234,567");
  EXPECT_EQ(thousands(-999), "-999");
  EXPECT_EQ(thousands(-123456), "-123,456");
}

TEST(Wording, ListsWords) {
  EXPECT_EQ(comma_list({}), "");
  EXPECT_EQ(comma_list({"a"}), "a");
  EXPECT_EQ(comma_list({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(did_you_mean(""), "");
  EXPECT_EQ(did_you_mean("echo"), "; did you mean echo?");
}

TEST(Wording, KeepsAMessageOnOneLine) {
  EXPECT_EQ(one_line("a\nb\r\nc\x1b[0m \n"), "a b  c [0m");
  EXPECT_EQ(one_line("größer"), "größer");
}

TEST(Wording, RoundsToDigits) {
  EXPECT_EQ(fixed(3.14159, 2), "3.14");
  EXPECT_EQ(fixed(1e6, 0), "1000000");
}

TEST(Wording, NumbersAreShort) {
  EXPECT_EQ(short_number(12400), "12.4k");
  EXPECT_EQ(short_number(2'500'000), "2.5M");
  EXPECT_EQ(short_number(0.00003), "3e-5");
  EXPECT_EQ(short_number(3.25), "3.25");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(123456, 9), "123456");
}

}  // namespace
}  // namespace pal
