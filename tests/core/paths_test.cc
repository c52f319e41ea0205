// The program finds its configs and samples from the build tree and from an installation.
#include "core/paths.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace pal {
namespace {

namespace fs = std::filesystem;

// An empty folder of its own for each test, removed at the end.
class Paths : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "pal_paths_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    prefix_ = name;
    fs::create_directories(prefix_ / "bin");
  }
  void TearDown() override { fs::remove_all(prefix_); }

  fs::path prefix_;
};

TEST_F(Paths, AnInstalledProgramUsesItsShareFolder) {
  fs::create_directories(prefix_ / "share" / "palimpsest");
  EXPECT_EQ(resource_dir_for(prefix_ / "bin" / "pal"), prefix_ / "share" / "palimpsest");
}

TEST_F(Paths, AProgramWithoutAShareFolderUsesTheSourceTree) {
  EXPECT_EQ(resource_dir_for(prefix_ / "bin" / "pal"), fs::path(PAL_SOURCE_DIR));
}

TEST_F(Paths, AFileInPlaceOfTheShareFolderIsNoInstallation) {
  fs::create_directories(prefix_ / "share");
  std::ofstream(prefix_ / "share" / "palimpsest") << "not a folder\n";
  EXPECT_EQ(resource_dir_for(prefix_ / "bin" / "pal"), fs::path(PAL_SOURCE_DIR));
}

TEST_F(Paths, TheTestsThemselvesRunFromTheBuildTree) {
  EXPECT_EQ(resource_dir(), fs::path(PAL_SOURCE_DIR));
  EXPECT_TRUE(fs::is_regular_file(resource_dir() / "data/samples/tatoeba_en_vi/train.en"));
}

}  // namespace
}  // namespace pal
