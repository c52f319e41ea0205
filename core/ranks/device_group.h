// The ranks of a run whose tensors lie on devices: what core/ranks/group.h exchanges between them,
// as work of a device's queues. NCCL carries it on GPUs (core/cuda/nccl_group.h).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/device.h"
#include "core/ranks/group.h"

namespace pal {

// All ranks make the same calls in the same order, and their queues run them in that order: two
// queues may take turns, never at once. A call returns when its work is queued. Reading and writing
// are as in Group; RecordingRefused where the queue is being recorded and the call cannot be.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string description() const = 0;  // "NCCL 2.28.9"
  // Of the device's memory, held beside every plan.
  virtual int64_t device_bytes() const = 0;

  virtual void all_to_all(std::span<const Exchanged> tensors, const Peers& peers,
                          const Queue& queue) = 0;
  void all_to_all(std::span<const Exchanged> tensors, const Queue& queue) {
    all_to_all(tensors, {.count = size()}, queue);
  }
  virtual void all_gather(std::span<const Exchanged> tensors, const Queue& queue) = 0;
  virtual void all_reduce(std::span<const Reduced> tensors, const Queue& queue) = 0;
  virtual void reduce_scatter(std::span<const Reduced> tensors, const Queue& queue) = 0;
};

struct DeviceGroupOptions {
  double timeout = 300;  // seconds after which an exchange that does not end is given up
  // Called by another thread where the ranks are lost and this one does not wake up: it is to say
  // so and to end the process. Who waits for the device is told by a DeviceError instead.
  std::function<void(const std::string& what)> lost;
};
// Joins the ranks of device.group, each with its own GPU; all call it. Null `group`: one rank
// alone. UsageError where there is no library for it or it is too old; RankError where the ranks do
// not find together. Defined where the CUDA device is part of the build (core/cuda/nccl_group.cu),
// else null.
[[gnu::weak]] std::shared_ptr<DeviceGroup> join_devices(const Device& device,
                                                        const DeviceGroupOptions& options);

}  // namespace pal
