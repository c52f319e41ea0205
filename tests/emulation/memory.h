// The emulated GPU's memory: what is where, and who may touch it when. Device memory is out of the
// processor's reach but while streams are drained; kernels reach it, pinned memory, and what is
// theirs alone.
#pragma once
#include <cstddef>
#include <cstdint>

namespace pal::emulation {

enum class Kind { device, pinned };

// Null: there is no room. Blocks begin on a boundary of 256 bytes; no two touch, and no access
// reaches the bytes between blocks of device memory.
void* allocate(Kind kind, size_t bytes);
size_t size_of(Kind kind, void* block);
void release(Kind kind, void* block);

// Whether all of it is device or pinned memory that was allocated, as far as the range tells.
bool is_reachable(const void* p, size_t bytes);
bool is_device(const void* p);
// std::runtime_error unless what a library is given, if anything, is reachable.
void require_reachable(const void* p, const char* what);

// Bytes that were to be copied between the host and the device so far, outside of captures.
int64_t bytes_linked();

// Device memory can be touched while one lives.
class Reach {
 public:
  Reach();
  ~Reach();
  Reach(const Reach&) = delete;
  Reach& operator=(const Reach&) = delete;
};

// What the kernel's thread that runs on this processor's may touch beside device and pinned memory:
// its stack, its parameters, the function that runs it, and what its warp's threads have brought.
struct Own {
  struct Span {
    const void* at = nullptr;
    size_t bytes = 0;
  };
  Span stack, parameters, body, brought;
};
// Null: no thread of a kernel runs.
inline thread_local const Own* running = nullptr;

// Ends the grid whose thread runs, with an error.
[[noreturn]] void refuse_access(const void* p);

}  // namespace pal::emulation
