// The flags of bench --kernels; what it prints is counted on the emulated GPU (tests/emulation).
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/support/files.h"
#include "train/commands/cli.h"
#include "train/commands/commands.h"

namespace pal::test {
namespace {

std::string refusal_of(std::vector<std::string> args) {
  args.insert(args.begin(), "bench");
  try {
    parse_command_line("pal", args).run();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(BenchKernels, TakesAConfigurationABucketAndADevice) {
  const auto parsed = [](std::vector<std::string> args) {
    return std::any_cast<BenchKernelsArgs>(parse_command_line("pal", args).args);
  };
  const auto args = parsed({"bench", "--kernels", "--config", "nmt_small"});
  EXPECT_EQ(args.profile, "h200");
  EXPECT_FALSE(args.bucket);
  const auto told = parsed({"bench", "--kernels", "--config", "nmt_small", "--profile", "a100_80",
                            "--bucket", "20,30", "--all", "--json"});
  EXPECT_EQ(told.profile, "a100_80");
  EXPECT_EQ(told.bucket, (std::pair<int64_t, int64_t>{20, 30}));
  EXPECT_TRUE(told.all && told.json);
}

TEST(BenchKernels, RefusesWhatItCannotDoInOneLine) {
  const std::vector<std::string> plain{"--kernels", "--config", "nmt_small"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), plain.begin(), plain.end());
    return refusal_of(more);
  };
  EXPECT_NE(refusal_of({"--kernels"}).find("--config is missing"), std::string::npos);
  EXPECT_NE(with({"--bucket", "30"}).find("--bucket: '30' is not two lengths"), std::string::npos);
  EXPECT_NE(with({"--profile"}).find("which device?"), std::string::npos);
  EXPECT_NE(with({"--profile", "h300"}).find("no device of that name"), std::string::npos);
  EXPECT_NE(with({"--link"}).find("one at a time"), std::string::npos);
  EXPECT_NE(with({"--out", "x"}).find("writes no --out"), std::string::npos);
  EXPECT_NE(refusal_of({"--config", "nmt_small"}).find("are of bench --kernels"),
            std::string::npos);
  EXPECT_NE(refusal_of({"--profile", "h200"}).find("'h200' names a device"), std::string::npos);
  EXPECT_NE(with({}).find("no emulated GPU"), std::string::npos) << "this program has none";
}

}  // namespace
}  // namespace pal::test
