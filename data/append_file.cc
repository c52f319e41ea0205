// Opens for appending, and writes whole texts.
#include "data/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "core/error.h"
#include "data/descriptor.h"

namespace pal {

AppendFile::AppendFile(std::filesystem::path path, Begin begin) : path_(std::move(path)) {
  const int flags =
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (begin == Begin::anew ? O_TRUNC : 0);
  descriptor_ = uninterrupted([&] { return ::open(path_.c_str(), flags, 0666); });
  if (descriptor_ < 0) fail();
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_), std::swap(descriptor_, other.descriptor_);
  return *this;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendFile::append(std::string_view text) {
  if (!write_all(descriptor_, text.data(), text.size())) fail();
}

void AppendFile::fail() const {
  throw Error(kExitFailed, path_.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace pal
