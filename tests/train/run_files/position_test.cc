// The position in a checkpoint: read back as written, and refused when it is another's.
#include "train/run_files/position.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace pal {
namespace {

TEST(Position, IsReadBack) {
  const std::string text = position_text({{"epoch", 3}, {"batch", 17}}, 0xC0FFEE);
  EXPECT_EQ(text, "epoch 3 batch 17 data 0000000000c0ffee");
  EXPECT_EQ(read_position(text, {"epoch", "batch"}, 0xC0FFEE, "[nmt]", "the lines"),
            (std::vector<int64_t>{3, 17}));
}

TEST(Position, OthersAreRefused) {
  auto refusal = [](const std::string& text) {
    return usage_error_of([&] { read_position(text, {"batch"}, 10, "[text]", "the lines"); });
  };
  EXPECT_EQ(refusal("batch 5 data 000000000000000a"), "");
  for (const char* text :
       {"", "batch", "batch 5", "batch -5 data a", "batch 5 data", "batch5 data a",
        "batch 5 data a ", "epoch 1 batch 5 data a", "batch 5 data g"}) {
    EXPECT_NE(refusal(text).find("expected 'batch N data HEX'"), std::string::npos) << text;
  }
  EXPECT_EQ(refusal("batch 5\ndata a").find('\n'), std::string::npos);
  EXPECT_NE(refusal("batch 5 data b").find("the lines are not what they were"), std::string::npos);
}

}  // namespace
}  // namespace pal
