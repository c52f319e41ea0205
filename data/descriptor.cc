// Writes until nothing is left.
#include "data/descriptor.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>

namespace pal {

bool write_all(int descriptor, const void* data, size_t bytes, int64_t at) {
  constexpr size_t kMost = size_t{1} << 30;  // Linux writes at most about 2 GiB at once
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kMost);
    const ssize_t count = at < 0 ? ::write(descriptor, next, piece)
                                 : ::pwrite(descriptor, next, piece, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    next += count, bytes -= static_cast<size_t>(count);
    if (at >= 0) at += count;
  }
  return true;
}

}  // namespace pal
