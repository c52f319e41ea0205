// NCCL with one rank, on a GPU, emulated or (tests/gpu) real.
#pragma once
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/ranks/device_group.h"
#include "tests/support/variable.h"

namespace pal::test {

// A rank that is alone and exchanges all the same; null where a real machine has no NCCL.
inline std::shared_ptr<DeviceGroup> one_rank(const Device& device,
                                             const DeviceGroupOptions& options = {}) {
#ifdef PAL_EMULATED_LIBRARIES
  const Variable folder("PAL_CUDA_LIBRARY_PATH", PAL_EMULATED_LIBRARIES "/whole");
  return join_devices(device, options);
#else
  try {
    return join_devices(device, options);
  } catch (const UsageError&) {
    return nullptr;
  }
#endif
}

}  // namespace pal::test
