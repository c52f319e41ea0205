// A device with a memory and queues of its own, for those who need not know whose it is: the arena,
// the runner, the program set. core/cuda/device.h implements it; the processor has none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/program.h"

namespace pal {

// A failed call to the device or one of its libraries, with the file and line that made it. The
// runner adds the node.
struct DeviceError : ProgramError {
  using ProgramError::ProgramError;
};

// A call that cannot be recorded: what was recorded so far is to be given up, and to be run
// instead.
struct RecordingRefused : DeviceError {
  using DeviceError::DeviceError;
};

// All work is queued and runs later, in order within a queue. What fails there may be reported by
// any later call, as DeviceError.
class Accelerator {
 public:
  using Event = std::shared_ptr<void>;  // a point in a queue's work
  using Graph = std::shared_ptr<void>;  // work that was recorded, to be run again and again

  virtual ~Accelerator() = default;
  // Before a thread that did not open the device uses it.
  virtual void use_here() = 0;
  virtual std::string description() const = 0;  // "NVIDIA H200, 140 GiB, compute capability 9.0"
  virtual std::string identity() const = 0;     // "GPU-0a1b..": no other device's
  virtual bool has_bf16() const = 0;            // it multiplies bf16 and TF32
  virtual int64_t free_bytes() const = 0;       // of its memory, now
  virtual int64_t room() const = 0;             // of them, for a plan: core/outside_plans.h

  // Zeroed bytes of the device's memory, or of host memory that it can copy from and to by itself
  // (pinned). BudgetError when there are not so many. Of the device's memory some is left to what
  // is outside of plans, unless the bytes are had `again`, by who has just released as many.
  virtual std::byte* allocate(Space space, int64_t bytes, bool again = false) = 0;
  virtual void release(Space space, std::byte* memory) noexcept = 0;

  // What kernels are started on. Queues are shared by all programs, so programs take turns.
  virtual void* stream(QueueId queue) = 0;
  // Whether kernels that the queue is given from here on begin before those of others on the same
  // device that wait too. They come behind what the queue has; stream() answers another. Recorded
  // kernels keep it.
  virtual void prefer(QueueId queue, bool first) = 0;
  virtual Event make_event() = 0;
  virtual Event make_timed_event() = 0;
  // Nanoseconds between two timed events that somebody has waited for.
  virtual int64_t ns_between(const Event& from, const Event& to) = 0;
  virtual void record(const Event& event, QueueId queue) = 0;
  // The time of it, of a timed event; one that is recorded is made anew by each replay, and nobody
  // can wait for it in between.
  virtual void record_time(const Event& event, QueueId queue) = 0;
  virtual void wait(QueueId queue, const Event& event) = 0;  // the queue goes on after the event
  virtual void wait(const Event& event) = 0;                 // the caller does
  virtual void synchronize() = 0;  // the caller goes on when these queues are empty

  // Between any memories. Bytes of the host's must stay as they are until the queue has done it.
  virtual void copy(QueueId queue, void* to, const void* from, int64_t bytes) = 0;
  virtual void fill(QueueId queue, void* to, unsigned char value, int64_t bytes) = 0;

  // What is queued between the two is recorded and does not run. Other queues join by waiting for
  // the compute queue's events, and the compute queue must have waited for them at the end.
  virtual void begin_recording() = 0;
  // Null: the device has no room for it, or will not have it; then nothing of it runs.
  virtual Graph end_recording() = 0;
  virtual void abandon_recording() noexcept = 0;  // after an error in between
  virtual void replay(const Graph& graph) = 0;    // on the compute queue
};

}  // namespace pal
