// Devices and their queues, as kernels and prepare see them.
#pragma once
#include <cstdint>
#include <string>

#include "core/program.h"

namespace pal {

enum class DeviceKind : uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int threads = 1;  // workers of the compute queue; a result never depends on it
};

// All processors this process may use, or `threads` where it is positive.
Device cpu_device(int threads = 0);

// Where a kernel runs. On the CPU a thread that shares its loops among `workers`.
struct Queue {
  QueueId id = kComputeQueue;
  int workers = 1;
  void* stream = nullptr;  // cudaStream_t on a GPU
};

}  // namespace pal
