// Pinned memory for tests' buffers, which come and go by the thousand: to pin and to release takes
// a driver longer than most kernels do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/accelerator.h"

namespace pal::test {

// At least so many bytes, with what was in them last. They go back into the pool, whose blocks are
// the process's until it ends. Not for several threads.
std::shared_ptr<std::byte[]> pooled_pinned(Accelerator& accelerator, int64_t bytes);

// Blocks that were pinned so far.
int64_t pinned_blocks();

}  // namespace pal::test
