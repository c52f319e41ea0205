// Temporary folders, and reading files whole.
#include "tests/support/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace pal {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test.test_suite_name()) + "." + test.name();
  std::replace(name.begin(), name.end(), '/', '_');  // of parametrised tests
  path_ = fs::path(testing::TempDir()) / ("pal_" + std::to_string(getpid()) + "_" + name);
  fs::remove_all(path_);
  fs::create_directories(path_);
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace pal
