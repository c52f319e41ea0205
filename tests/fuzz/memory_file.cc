// Files that never touch a disk, and a folder to name them in.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/fuzz/fuzz.h"

namespace pal {
std::string new_folder(const char* name) {
  const std::filesystem::path all = std::filesystem::temp_directory_path();
  std::string pattern = (all / (std::string(name) + "_XXXXXX")).string();
  require(::mkdtemp(pattern.data()) != nullptr, "mkdtemp");
  return pattern;
}

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
