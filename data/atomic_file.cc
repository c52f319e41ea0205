// Write, sync, rename, sync the folder: the order that survives a power cut.
#include "data/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "data/descriptor.h"

namespace pal {

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  descriptor_ = uninterrupted(
      [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
  if (descriptor_ < 0) fail("creating");
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(const void* data, size_t bytes) {
  if (!write_all(descriptor_, data, bytes)) fail("writing");
}

void AtomicFile::write_again(size_t at, const void* data, size_t bytes) {
  if (!write_all(descriptor_, data, bytes, static_cast<int64_t>(at))) fail("writing");
}

void AtomicFile::commit() {
  if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0) fail("syncing");
  const int closing = std::exchange(descriptor_, -1);
  if (::close(closing) != 0) fail("closing");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming");
  temporary_.clear();
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;  // a folder may be writable and not readable
  const bool synced =
      uninterrupted([&] { return ::fsync(directory); }) == 0 || errno == EINVAL || errno == EROFS;
  const int error = errno;
  ::close(directory);
  errno = error;
  if (!synced) fail("syncing the folder");
}

void AtomicFile::fail(const std::string& doing) {
  const std::string reason = std::strerror(errno);
  const bool replaced = temporary_.empty();
  discard();
  throw Error(kExitFailed, "[save] " + path_ + ": " + reason + " while " + doing +
                               (replaced ? "; the new file may not survive a power cut"
                                         : "; the previous file, if any, is untouched: free "
                                           "space or give another place, and try again"));
}

void AtomicFile::discard() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

}  // namespace pal
