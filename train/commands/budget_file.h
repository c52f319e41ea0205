// DIR/budget: how much memory the jobs of pal corun may have from now on, which may be changed
// while they run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace pal {

class BudgetFile {
 public:
  // What is written there already does not count: --budget is newer.
  explicit BudgetFile(std::filesystem::path file);

  // What the file says, where it says something else than last time. Nothing where it is not there;
  // where it cannot be read or is no size the log warns, once.
  std::optional<int64_t> changed();
  std::string name() const { return file_.string(); }

 private:
  std::string first_words();

  std::filesystem::path file_;
  std::string last_;
  bool warned_ = false;  // that it cannot be read
};

}  // namespace pal
