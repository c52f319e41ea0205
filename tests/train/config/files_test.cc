// Where configurations and their data are found, those that ship, and the committed reference page.
#include "tests/support/files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "train/config/config.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

TEST(ConfigFiles, files_are_found_by_path_and_by_name) {
  EXPECT_EQ(find_config("nmt_small").filename(), "nmt_small.yaml");
  EXPECT_EQ(find_config("nmt_small.yaml").filename(), "nmt_small.yaml");
  fs::path direct = fs::path(PAL_SOURCE_DIR) / "configs/nmt_small.yaml";
  EXPECT_EQ(find_config(direct.string()), direct);
  try {
    find_config("nmt_smal");
    FAIL();
  } catch (const UsageError& e) {
    std::string what = e.what();
    EXPECT_NE(what.find("did you mean nmt_small?"), std::string::npos) << what;
    EXPECT_NE(what.find("there are: "), std::string::npos) << what;
  }
  EXPECT_THROW(find_config(""), UsageError);
  EXPECT_THROW(load_config(PAL_SOURCE_DIR), UsageError);  // a folder
  EXPECT_THROW(load_config("does/not/exist.yaml"), UsageError);
}

TEST(ConfigFiles, data_files_follow_root_and_language) {
  Config c = load_config(find_config("nmt_small"));
  ParallelFiles train = parallel_files(c.parallel_text(), "train");
  EXPECT_TRUE(fs::exists(train.source)) << train.source;
  EXPECT_EQ(train.target.filename(), "train.vi");
  auto& data = std::get<ParallelTextConfig>(c.data);
  data.root = "/corpora";
  data.test_source = std::optional<std::string>("tst2013.en");
  data.test_target = std::optional<std::string>("/else/tst.vi");
  EXPECT_EQ(parallel_files(data, "test").source, fs::path("/corpora/tst2013.en"));
  EXPECT_EQ(parallel_files(data, "test").target, fs::path("/else/tst.vi"));
  EXPECT_EQ(parallel_files(data, "valid").source, fs::path("/corpora/valid.en"));
  EXPECT_THROW(parallel_files(data, "dev"), ProgramError);
}

TEST(ConfigFiles, every_shipped_config_loads) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(PAL_SOURCE_DIR) / "configs"))
    if (entry.path().extension() == ".yaml") {
      EXPECT_NO_THROW(load_config(entry.path())) << entry.path();
      ++count;
    }
  EXPECT_GE(count, 1);
}

TEST(ConfigFiles, the_reference_page_is_current) {
  EXPECT_EQ(read_file(fs::path(PAL_SOURCE_DIR) / "docs/configuration.md"), config_reference())
      << "run: pal config-reference > docs/configuration.md";
}

}  // namespace
}  // namespace pal
