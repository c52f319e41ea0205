// Files that never touch a disk.
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

namespace pal {

MemoryFile::MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  require(descriptor_ >= 0, "memfd_create");
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    require(count > 0, "write to memory");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

}  // namespace pal
