// Reading a size from a file that somebody else writes.
#include "train/commands/budget_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "core/error.h"
#include "core/text.h"
#include "train/config/config.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

// Its first bytes, without the white space around them. Empty where there is none: whoever writes
// it may be about to.
std::string first_words(const std::filesystem::path& file) {
  const int handle = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (handle < 0) return {};
  std::array<char, 100> bytes{};
  const ssize_t count = ::read(handle, bytes.data(), bytes.size());
  ::close(handle);
  std::string text(bytes.data(), size_t(std::max<ssize_t>(count, 0)));
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

std::optional<int64_t> BudgetFile::changed() {
  const std::string text = first_words(file_);
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
