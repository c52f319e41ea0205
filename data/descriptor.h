// System calls on open files, begun anew where a signal interrupted them.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace pal {

// `call`, again where a signal interrupted it.
template <typename Call> int uninterrupted(const Call& call) {
  int result = -1;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

// Whether all bytes are written, by as many writes as that takes; errno says why not. From the
// byte `at` of the file on, or, below zero, where it stands.
bool write_all(int descriptor, const void* data, size_t bytes, int64_t at = -1);

}  // namespace pal
