// What tests do with files: a folder of their own, reading what was written, and the error that
// some work ends in.
#pragma once
#include <filesystem>
#include <string>

#include "core/error.h"

namespace pal {

// An empty folder, named after the process and the running test; removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// All bytes of a file; empty when there is none.
std::string read_file(const std::filesystem::path& file);

// The message of the UsageError that `use` throws; empty when it throws none.
template <class Use> std::string usage_error_of(Use use) {
  try {
    use();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

}  // namespace pal
