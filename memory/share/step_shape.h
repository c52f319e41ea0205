// A job's step as the jobs beside it see it: which bytes it holds when, and what it asks of the
// device.
//
// Moments are those of lifetimes (memory/storages/lifetimes.h): node n starts at 2n and is done at
// 2n + 1. Times are ticks: nanoseconds of the step when it runs alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "memory/plan/plan.h"
#include "memory/price/demand.h"
#include "memory/storages/lifetimes.h"

namespace pal {

// A storage that lives and dies within the step, and so can lie where another job's lies at another
// time.
struct SharableBuffer {
  Lifetime life;      // from the start of a node until a node is done, or the step
  int64_t bytes = 0;  // aligned
  StorageId storage;
  Role role = Role::feature_map;  // of what was put there first
  bool operator==(const SharableBuffer& other) const {
    return bytes == other.bytes && storage == other.storage && life.begin == other.life.begin &&
           life.end == other.life.end;
  }
};

struct StepShape {
  std::string name;
  // The job's own: state, both slots of inputs, and outputs, which are read after the step.
  int64_t own_bytes = 0;
  std::vector<SharableBuffer> buffers;
  int64_t alone_bytes = 0;        // own bytes, and the sharable ones as the plan has placed them
  std::vector<int64_t> tick;      // by moment, strictly later where a node of compute is between
  std::vector<NodeDemand> nodes;  // those of the compute queue
  std::vector<NodeId> node;       // which they are
  std::vector<Work> work;         // what they do

  int64_t moments() const { return int64_t(tick.size()) - 1; }
  int64_t ticks() const { return tick.back(); }
  double ms() const { return double(ticks()) * 1e-6; }
  // Of the step with all of the device, where beside others it has a part.
  double alone_ms = 0;  // 0: ms()
  double ms_alone() const { return alone_ms > 0 ? alone_ms : ms(); }
};

// Of a step that has been placed. Copies to the host's memory run beside compute: what they take of
// the device is not counted, how long compute waits for them is.
StepShape step_shape(const std::string& name, const Program& program, const Storages& storages,
                     const Plan& plan, const DeviceProfile& device);

// As it runs with a `share` of the device and no more (part_of), as a job of a processor has its
// part of the threads; alone it has all. `node_ns`: what its nodes took so, in nanoseconds by node
// of the program, where that was measured; whatever share it gets, a node is then slower than
// predicted by one factor. Empty: as predicted.
StepShape with_share(const StepShape& shape, const DeviceProfile& device, double share,
                     const std::vector<int64_t>& node_ns);

}  // namespace pal
