#include "tests/support/golden_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/files.h"

namespace pal {

void expect_golden(const std::string& file, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(PAL_SOURCE_DIR) / "tests" / file;
  if (const char* write = std::getenv("PAL_WRITE_GOLDEN"); write && std::string(write) == "1") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return;
  }
  const std::string golden = read_file(path);
  ASSERT_FALSE(golden.empty()) << path << ": there is none; PAL_WRITE_GOLDEN=1 writes it";
  if (text == golden) return;
  std::istringstream ours(text), theirs(golden);
  std::string a, b;
  for (int line = 1;; ++line) {
    const bool more = bool(std::getline(ours, a)), more_golden = bool(std::getline(theirs, b));
    if (more && more_golden && a == b) continue;
    ADD_FAILURE() << path << ":" << line << ": is\n  " << (more ? a : "(its end)")
                  << "\nand was\n  " << (more_golden ? b : "(its end)")
                  << "\n(PAL_WRITE_GOLDEN=1 writes the file anew)";
    return;
  }
}

bool was_run_apart() {
  const std::string limit = "SSE41";
  if (const char* now = std::getenv("DNNL_MAX_CPU_ISA"); now && now == limit) return false;
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const TemporaryFolder folder;
  const std::string said = (folder.path() / "said").string();
  const std::string command = "DNNL_MAX_CPU_ISA=" + limit + " '" +
                              std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --gtest_filter=" + test.test_suite_name() + "." + test.name() +
                              " > '" + said + "' 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << read_file(said);
  return true;
}

}  // namespace pal
