// Reading a size from a file that somebody else writes.
#include "train/commands/budget_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "train/config/config.h"
#include "train/run_files/log.h"

namespace pal {
BudgetFile::BudgetFile(std::filesystem::path file) : file_(std::move(file)), last_(first_words()) {}

// Its first bytes, without the white space around them. Empty where there is none: whoever writes
// it may be about to.
std::string BudgetFile::first_words() {
  const int handle = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  std::array<char, 100> bytes{};
  const ssize_t count = handle < 0 ? -1 : ::read(handle, bytes.data(), bytes.size());
  const int error = errno;
  if (handle >= 0) ::close(handle);
  if (count < 0) {
    if (error != ENOENT && !std::exchange(warned_, true)) {
      log_warn(file_.string() + ": cannot be read (" + std::strerror(error) +
               "); the budget stays as it was");
    }
    return {};
  }
  const std::string text(bytes.data(), size_t(count));
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::optional<int64_t> BudgetFile::changed() {
  const std::string text = first_words();
  if (text.empty() || text == last_) return {};
  last_ = text;
  try {
    return parse_size(text).bytes;
  } catch (const UsageError& error) {
    log_warn(file_.string() + ": " + error.what() + "; the budget stays as it was");
    return {};
  }
}

}  // namespace pal
