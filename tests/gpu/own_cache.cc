// A folder for what the tests of one process keep of the machine: which algorithms were the
// fastest. Without one each run would time products anew, and could choose others, which add in
// other orders.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace pal::test {
namespace {

class OwnCache : public testing::Environment {
 public:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/pal_cache_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr) << folder;
    setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    folder_ = folder;
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  std::filesystem::path folder_;
};

[[maybe_unused]] const auto* const environment = testing::AddGlobalTestEnvironment(new OwnCache);

}  // namespace
}  // namespace pal::test
