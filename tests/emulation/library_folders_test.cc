// Where CUDA's libraries are looked for.
#include "core/cuda/library_folders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/support/files.h"
#include "tests/support/variable.h"

namespace pal::test {
namespace {

namespace fs = std::filesystem;

bool has(const std::vector<fs::path>& folders, const fs::path& wanted) {
  return std::find(folders.begin(), folders.end(), wanted) != folders.end();
}

// Nobody has activated it: its python3 comes first in PATH, and no variable names it.
TEST(LibraryFolders, AreThoseOfThePythonInPath) {
  const TemporaryFolder folder;
  const fs::path env = folder.path() / "env";
  const fs::path lib = env / "lib/python3.12/site-packages/nvidia/cublas/lib";
  fs::create_directories(lib), fs::create_directories(env / "bin");
  std::ofstream(env / "bin/python3") << "";
  const std::string path = std::getenv("PATH");
  EXPECT_FALSE(has(library_folders("cublas"), lib));
  const Variable changed("PATH", (env / "bin").string() + ":" + path);
  EXPECT_TRUE(has(library_folders("cublas"), lib));
  EXPECT_FALSE(has(library_folders("cudnn"), lib));
}

TEST(LibraryFolders, BeginWithWhatTheUserNames) {
  const Variable named("PAL_CUDA_LIBRARY_PATH", "/a:/b");
  const std::vector<fs::path> folders = library_folders("cublas");
  ASSERT_GE(folders.size(), 3u);
  EXPECT_EQ(folders[0], "/a");
  EXPECT_EQ(folders[1], "/b");
  EXPECT_EQ(folders[2], "") << "then as the loader finds them";
}

}  // namespace
}  // namespace pal::test
