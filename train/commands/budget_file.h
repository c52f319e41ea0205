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
  explicit BudgetFile(std::filesystem::path file) : file_(std::move(file)) {}

  // What the file says, where it says something else than last time. Nothing where it is not there,
  // or is no size: then the log warns, once.
  std::optional<int64_t> changed();

 private:
  std::filesystem::path file_;
  std::string last_;
};

}  // namespace pal
