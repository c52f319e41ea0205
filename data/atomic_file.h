// A file that is replaced as a whole or not at all, whatever happens while it is written.
#pragma once
#include <cstddef>
#include <string>

namespace pal {

// Writes to PATH.tmp beside PATH; commit() syncs it, renames it over PATH and syncs the folder.
// Before commit() returns, PATH is untouched; without it, the temporary file is removed. A killed
// process may leave PATH.tmp behind, which the next save overwrites. Failures (full disk, no
// permission) remove the temporary file and throw Error with kExitFailed.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  // Writes over what was written before, from that byte of the file on.
  void write_again(size_t at, const void* data, size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(const std::string& doing);
  void discard();

  std::string path_, temporary_;
  int descriptor_ = -1;
};

}  // namespace pal
