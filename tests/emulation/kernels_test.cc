// Which kernels there are: every operator has one, and every one of them, and every place that
// launches one, is reached by the operators' cases.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/emulation/emulation.h"
#include "tests/emulation/one_rank.h"
#include "tests/emulation/op_cases.h"

namespace pal::test {
namespace {

// Operators without CUDA kernels: GPU kernels take plain layouts, there is nothing to reorder.
const std::set<std::string> kWithout = {"reorder"};

TEST(Kernels, EveryOperatorHasOneOrIsKnownToHaveNone) {
  for (const OpDef* op : all_ops()) {
    const bool has = op->cuda && op->cuda->run;
    EXPECT_NE(has, kWithout.count(op->name) == 1) << op->name;
  }
}

// Of every .cu file: the kernels it defines, and the places where it launches one.
struct Source {
  std::string file;
  std::set<std::string> kernels, launched;
  std::vector<int> launches;  // lines
};
std::vector<Source> sources() {
  std::vector<Source> out;
  for (const char* folder : {"core", "ops"}) {
    const auto path = std::filesystem::path(PAL_SOURCE_DIR) / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      if (name.find("cuda") == std::string::npos && entry.path().extension() != ".cu") continue;
      Source source{.file = name};
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      const std::string all = text.str();
      static const std::regex kernel(
          R"(__global__\s+(?:inline\s+)?void\s+(?:__launch_bounds__\([\w:, ]+\)\s+)?(\w+)\()");
      static const std::regex launch(R"(\blaunch\(\s*(\w+_kernel))");
      for (std::sregex_iterator i(all.begin(), all.end(), kernel), end; i != end; ++i) {
        source.kernels.insert((*i)[1]);
      }
      for (std::sregex_iterator i(all.begin(), all.end(), launch), end; i != end; ++i) {
        source.launched.insert((*i)[1]);
        source.launches.push_back(1 +
                                  int(std::count(all.begin(), all.begin() + i->position(), '\n')));
      }
      out.push_back(std::move(source));
    }
  }
  return out;
}

// Every __global__ function is launched somewhere by that name, and every launch has been made.
TEST(Kernels, EveryOneIsLaunchedByTheExamples) {
  emulation::settings() = {};
  if (!gpu()) GTEST_SKIP() << "there is no GPU";
  for (const OpDef* op : ops_with_kernels()) {
    for (const Case& c : cases_of(*op, gpu())) {
      Problems problems;
      evaluate(c, {}, problems);
    }
  }
  const bool exchanges = one_rank(cuda_device()) != nullptr;
  std::set<std::string> defined, launched;
  for (const Source& source : sources()) {
    if (!exchanges && source.file.starts_with("nccl")) continue;
    defined.insert(source.kernels.begin(), source.kernels.end());
    launched.insert(source.launched.begin(), source.launched.end());
    for (int line : source.launches) {
      bool made = false;  // the call may go on for some lines; the grid stands on one of them
      for (int l = line; l < line + 3; ++l)
        made |= emulation::launches().count({source.file, l}) > 0;
      EXPECT_TRUE(made) << source.file << ":" << line << " was not reached by any example";
    }
  }
  EXPECT_EQ(defined, launched);
  EXPECT_GT(defined.size(), 40u);
  RecordProperty("kernels", int(defined.size()));
  std::printf("%zu kernels, %lld grids run\n", defined.size(),
              static_cast<long long>(emulation::kernels_run()));
}

}  // namespace
}  // namespace pal::test
