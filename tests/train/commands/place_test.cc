// pal place: its file, its flags, what it prints and writes, its exit codes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/perfect_packing.h"
#include "train/commands/cli.h"
#include "train/commands/commands.h"
#include "train/commands/place_csv.h"

namespace pal {
namespace {
namespace fs = std::filesystem;

std::string error_of_csv(const std::string& text) {
  try {
    parse_place_csv(text, "f.csv");
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

class PlaceCommand : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  // Standard output of the command; its error, if it throws, is in error_.
  std::string run(std::vector<std::string> args) {
    args.insert(args.begin(), "place");
    const auto command = std::any_cast<PlaceArgs>(parse_command_line("pal", args).args);
    code_ = -1;
    testing::internal::CaptureStdout();
    try {
      code_ = run_place(command);
    } catch (const Error& e) {
      code_ = e.exit_code;
      error_ = e.what();
    }
    return testing::internal::GetCapturedStdout();
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  int code_ = -1;
  std::string error_;
};

TEST(PlaceCsv, ReadsColumnsByName) {
  const PlaceTable t = parse_place_csv(
      "\xef\xbb\xbfsize, id,name,lower,upper\r\n64,a,x y,0,2\r\n\r\n8,b,z,-1,2", "f");
  ASSERT_EQ(t.buffers.size(), 2u);
  EXPECT_EQ(t.buffers[0].size, 64);
  EXPECT_EQ(t.buffers[1].lower, -1);
  EXPECT_EQ(place_csv(t, std::vector<int64_t>{8, 0}),
            "size, id,name,lower,upper,offset\n64,a,x y,0,2,8\n8,b,z,-1,2,0\n");
}

TEST(PlaceCsv, ReadsTheOlderHeader) {
  const PlaceTable t = parse_place_csv("buffer,start,end,size\n0,1,5,64\n", "f");
  ASSERT_EQ(t.buffers.size(), 1u);
  EXPECT_EQ(t.buffers[0], (Buffer{1, 5, 64}));
}

TEST(PlaceCsv, EveryErrorNamesTheLine) {
  const std::string head = "id,lower,upper,size\n";
  EXPECT_EQ(error_of_csv(""), "f.csv: the file is empty; it must begin with id,lower,upper,size");
  EXPECT_EQ(error_of_csv("id,lower,size\n"),
            "f.csv:1: the header has no column upper; it must name id,lower,upper,size");
  EXPECT_EQ(error_of_csv("id,id,lower,upper,size\n"), "f.csv:1: the header names id twice");
  EXPECT_EQ(error_of_csv("id,lower,upper,size,offset\n"),
            "f.csv:1: there is an offset column already; remove it");
  EXPECT_EQ(error_of_csv(head + "a,0,1,5\nb,0,1\n"), "f.csv:3: 3 fields where the header has 4");
  EXPECT_EQ(error_of_csv(head + "a,0,1,5x\n"), "f.csv:2: size '5x' is not a whole number");
  EXPECT_EQ(error_of_csv(head + "a,,1,5\n"), "f.csv:2: lower '' is not a whole number");
  EXPECT_EQ(error_of_csv(head + "a,0,1,1e3\n"), "f.csv:2: size '1e3' is not a whole number");
  EXPECT_EQ(error_of_csv(head + "a,0,99999999999999999999,5\n"),
            "f.csv:2: upper '99999999999999999999' does not fit in 64 bits");
  EXPECT_EQ(error_of_csv(head + "\na,3,1,5\n"), "f.csv:3: upper 1 is before lower 3");
  EXPECT_EQ(error_of_csv(head + "a,0,1,-5\n"), "f.csv:2: size -5 is negative");
  EXPECT_EQ(error_of_csv(head + "a,0,1,5\na,0,1,5\n"), "f.csv:3: id 'a' was given in line 2");
  EXPECT_EQ(error_of_csv(head + ",0,1,5\n"), "f.csv:2: the id is empty");
  EXPECT_EQ(error_of_csv(head + "a,0,1,2000000000000000000\nb,5,6,2000000000000000000\n"),
            "f.csv:3: the sizes so far add up to 2^61 or more");
}

TEST(PlaceCli, ReadsEveryFlag) {
  auto a = std::any_cast<PlaceArgs>(
      parse_command_line("pal", {"place", "f.csv", "--capacity", "100", "--time-limit", "0.5",
                                 "--out", "o", "--json"})
          .args);
  EXPECT_EQ(a.file, "f.csv");
  EXPECT_EQ(a.capacity, 100);
  EXPECT_EQ(a.time_limit, 0.5);
  EXPECT_EQ(a.out, "o");
  EXPECT_TRUE(a.json);
  for (std::vector<std::string> bad : {std::vector<std::string>{"place"},
                                       {"place", "f", "--capacity", "-1"},
                                       {"place", "f", "--capacity", "1x"},
                                       {"place", "f", "--time-limit", "nan"},
                                       {"place", "f", "--time-limit", "-2"},
                                       {"place", "f", "g"}}) {
    EXPECT_THROW(parse_command_line("pal", bad), UsageError) << bad.back();
  }
}

TEST_F(PlaceCommand, JsonHasExactlyTheseKeys) {
  const auto file = write("p.csv", "id,lower,upper,size\na,0,2,4\nb,1,3,2\nc,2,4,4\n");
  const auto json = nlohmann::json::parse(run({file, "--json"}));
  EXPECT_EQ(code_, kExitDone);
  EXPECT_EQ(json.size(), 5u);
  EXPECT_EQ(json.at("buffers"), 3);
  EXPECT_EQ(json.at("lower_bound"), 6);
  EXPECT_EQ(json.at("height"), 6);
  EXPECT_EQ(json.at("optimal"), true);
  EXPECT_GE(json.at("seconds").get<double>(), 0);
}

TEST_F(PlaceCommand, WritesOffsetsThatDoNotOverlap) {
  std::ostringstream text;
  text << "id,lower,upper,size\n";
  int id = 0;
  for (const Buffer& b : test::perfect_packing(1, 150, 1000, 1 << 20))
    text << id++ << ',' << b.lower << ',' << b.upper << ',' << b.size << '\n';
  const auto file = write("p.csv", text.str()), out = (folder_ / "o.csv").string();
  run({file, "--out", out, "--time-limit", "60"});
  ASSERT_EQ(code_, kExitDone) << error_;
  std::ifstream in(out);
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "id,lower,upper,size,offset");
  std::vector<Buffer> buffers;
  std::vector<int64_t> offset;
  while (std::getline(in, line)) {
    long long i, lower, upper, size, at;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lld,%lld,%lld,%lld,%lld", &i, &lower, &upper, &size, &at),
              5);
    ASSERT_EQ(i, int64_t(offset.size()));
    buffers.push_back({lower, upper, size});
    offset.push_back(at);
    EXPECT_LE(at + size, 1 << 20);
  }
  EXPECT_EQ(buffers.size(), 150u);
  check_placement(buffers, offset);
}

TEST_F(PlaceCommand, CapacityDecidesTheExitCode) {
  const auto file = write("p.csv", "id,lower,upper,size\na,0,2,4\nb,1,3,2\nc,2,4,4\n");
  run({file, "--capacity", "6"});
  EXPECT_EQ(code_, kExitDone);
  const auto json = nlohmann::json::parse(run({file, "--capacity", "5", "--json"}));
  EXPECT_EQ(code_, kExitBudget);
  EXPECT_EQ(json.at("height"), 6);
  EXPECT_NE(error_.find("6 bytes are alive at once"), std::string::npos) << error_;
}

// Six bytes are alive at once, but every placement leaves a hole.
TEST_F(PlaceCommand, SaysWhenASearchShowsThatNothingIsLower) {
  const auto file = write("p.csv",
                          "id,lower,upper,size\na,4,7,3\nb,2,4,2\nc,6,8,3\nd,2,5,1\ne,3,4,2\n"
                          "f,0,2,1\ng,5,6,2\nh,3,6,1\ni,0,3,3\n");
  const auto json = nlohmann::json::parse(run({file, "--capacity", "6", "--json"}));
  EXPECT_EQ(code_, kExitBudget);
  EXPECT_EQ(json.at("lower_bound"), 6);
  EXPECT_EQ(json.at("height"), 7);
  EXPECT_EQ(json.at("optimal"), true);
  EXPECT_NE(error_.find("no placement is below 7"), std::string::npos) << error_;
  run({file, "--capacity", "7"});
  EXPECT_EQ(code_, kExitDone);
}

TEST_F(PlaceCommand, WithoutTimeThereIsStillAPlacement) {
  std::ostringstream text;
  text << "id,lower,upper,size\n";
  int id = 0;
  for (const Buffer& b : test::perfect_packing(6, 450, 100, 1000))
    text << id++ << ',' << b.lower << ',' << b.upper << ',' << b.size << '\n';
  const auto file = write("p.csv", text.str());
  const auto json =
      nlohmann::json::parse(run({file, "--time-limit", "0", "--capacity", "1000", "--json"}));
  EXPECT_EQ(code_, kExitBudget);
  EXPECT_GT(json.at("height"), 1000);
  EXPECT_EQ(json.at("optimal"), false);
  EXPECT_NE(error_.find("not found; the best placement takes "), std::string::npos) << error_;
}

TEST_F(PlaceCommand, FilesThatCannotBeReadOrWritten) {
  EXPECT_EQ(run({(folder_ / "none.csv").string()}), "");
  EXPECT_EQ(code_, kExitUsage);
  run({folder_.string()});
  EXPECT_EQ(code_, kExitUsage);
  const auto file = write("p.csv", "id,lower,upper,size\n");
  const auto json = nlohmann::json::parse(run({file, "--json"}));
  EXPECT_EQ(json.at("buffers"), 0);
  EXPECT_EQ(json.at("height"), 0);
  run({file, "--out", (folder_ / "no" / "such").string()});
  EXPECT_EQ(code_, kExitFailed);
}

}  // namespace
}  // namespace pal
