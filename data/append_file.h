// A file that grows: a log that others may read while it is written.
#pragma once
#include <filesystem>
#include <string_view>

namespace pal {

// What append() has returned from is the system's. Failures (a full disk, no permission) throw
// Error with kExitFailed that names the file; a call that a signal interrupts is begun anew.
class AppendFile {
 public:
  enum class Begin { anew, at_the_end };
  AppendFile(std::filesystem::path path, Begin begin);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;

  void append(std::string_view text);

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace pal
