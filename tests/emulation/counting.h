// Counts what kernels on the emulated GPU launch and move (core/kernel_counter.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/kernel_counter.h"

namespace pal::emulation {

class Accesses;
// Of the kernel that runs: told of each of its accesses of device memory. Null: nobody counts.
inline thread_local Accesses* watching = nullptr;
void touch(Accesses& accesses, const void* p, size_t bytes, bool writes);

// Whether work is counted in place of being done.
bool counting();
// A launch of core/cuda/launch.h is about to be queued.
void count_place(const char* file, int line);
// A grid of `blocks` blocks, of which run(b) runs one; some of them are run.
void count_grid(unsigned blocks, int threads, const std::function<void(unsigned)>& run);
// A library's work.
void count_library(const char* name, double read, double written, double flops);
// A copy or a fill; whether it need not be done.
bool count_bytes(LaunchCount::Kind kind, size_t bytes);
}  // namespace pal::emulation
