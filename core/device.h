// Devices and their queues, as kernels and prepare see them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/program.h"

namespace pal {

class Accelerator;       // core/accelerator.h
class AlgorithmChoices;  // core/algorithm_choices.h
class Group;             // core/ranks/group.h
class DeviceGroup;       // core/ranks/device_group.h

enum class DeviceKind : uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int threads = 1;  // workers of the compute queue; a result never depends on it
  std::shared_ptr<Accelerator> accelerator = nullptr;  // cuda's memory and queues
  // Of an accelerator: record a step once and replay it; round f32 operands of products to 11 bits
  // (TF32) for tensor cores, with f32 sums; give convolutions and whole recurrent layers to cuDNN
  // where it is found.
  bool graphs = true, tf32 = false, cudnn = true;
  // Of an accelerator: algorithms of products that were the fastest when they were timed, here or
  // by who came before; null: those that the library thinks so.
  std::shared_ptr<AlgorithmChoices> algorithms = nullptr;
  std::shared_ptr<Group> group = nullptr;  // the ranks that it trains with; null: it is alone
  std::shared_ptr<DeviceGroup> device_group = nullptr;  // of an accelerator: carries its bytes
};

// All processors this process may use, or `threads` where it is positive.
Device cpu_device(int threads = 0);

// A GPU of the machine, by its number; those beyond the last are counted from the first again.
// UsageError, one line, where the build has none, the machine has none, or it is too old.
Device cuda_device(int number = 0);

// Defined where the CUDA device is part of the build (core/cuda/device.cu), else null.
[[gnu::weak]] std::shared_ptr<Accelerator> open_accelerator(int number);

// "9.19.0" of the cuDNN that is found, empty: none is. Defined where a build can use it
// (core/cuda/cudnn.cu), else null.
[[gnu::weak]] std::string cudnn_version();

// Where a kernel runs. On the CPU a thread that shares its loops among `workers`.
struct Queue {
  QueueId id = kComputeQueue;
  int workers = 1;
  void* stream = nullptr;  // cudaStream_t on a GPU
};

}  // namespace pal
