// Who may go on, where jobs share a pool: a state machine without threads, clocks or bytes, which
// the runtime, the simulator and the model checker drive.
//
// A job asks before a moment of its step at which it takes bytes of the pool, and says so when it
// has passed one at which others may be waiting. It asks at a node's start, reports when a node is
// done, and at the end of a step.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "memory/share/circle.h"

namespace pal {

using JobId = int32_t;

// A moment of a job's step that has been passed, counted from the job's first step under a gate.
struct PassedMoment {
  static constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();  // of the step
  JobId job = 0;
  int64_t step = -1, moment = kEnd;  // none: before the first
};

class PoolGate {
 public:
  virtual ~PoolGate() = default;
  // Which of its programs the job runs next.
  virtual void begin_step(JobId job, size_t program) = 0;
  virtual void end_step(JobId job) = 0;
  // The moments of its program at which the job must ask, and those that it must report, in order.
  virtual const std::vector<int64_t>& asks(JobId job) const = 0;
  virtual const std::vector<int64_t>& reports(JobId job) const = 0;
  // Whether the job may pass the moment. `true` takes what the moment takes.
  virtual bool may_pass(JobId job, int64_t moment) = 0;
  virtual void passed(JobId job, int64_t moment) = 0;
  // For devices that work later than they are told: jobs ask when they queue a node, and report
  // when they have queued it. Adds whose passing let the job pass the moment, right after may_pass
  // was true: there the device is to wait for them. At most one moment of each other job.
  // ProgramError where the gate is for simulation alone.
  virtual void after(JobId job, int64_t moment, std::vector<PassedMoment>& out) const;
  // Where a job waits for time to pass, too: how many milliseconds until it may ask again with
  // another answer, though nobody passes anything. Infinite: it need not.
  virtual double again_ms(JobId) const { return std::numeric_limits<double>::infinity(); }
  // All moments at which the program that the job runs now ever asks or reports, in order.
  virtual std::vector<int64_t> stops(JobId job) const;
  // The job has ended, or failed within a step: it holds nothing and asks for nothing any more.
  virtual void leave(JobId job) = 0;
  // As it stands, for whoever tries all ways to go on.
  virtual std::unique_ptr<PoolGate> clone() const = 0;
};

// Before `moment` of its step, a job waits until another has passed a moment of a step. Steps are
// counted from the circle's first period, in which the waiting step is `step` on the circle: the
// step waited for is then `other_step`, and is negative where that was before the first.
struct CircleWait {
  int64_t moment = 0;
  JobId other = 0;
  int32_t other_step = 0;
  int64_t other_moment = 0;
};

// The waits that keep storages apart which lie over one another, by job and step on the circle.
// Each points backwards in the planned time of the circle, so that no order of speeds makes a
// cycle: a cycle would come back to a moment from one that is earlier. `grain`: bytes are told
// apart in pieces of so many; more makes fewer and longer waits.
using CircleWaits = std::vector<std::vector<std::vector<CircleWait>>>;
CircleWaits waits_of(const Circle& circle, const PoolPlacement& placement, int64_t grain = 64);

// ProgramError where jobs that obey the waits may come to a stop, each waiting for another. (Waits
// are for progress, which nobody takes back: if jobs can come to a stop at any speeds, they do
// where each goes on as far as it may.)
void check_waits(const Circle& circle, const CircleWaits& waits);

// Jobs on a circle. A job that left holds nobody up.
std::unique_ptr<PoolGate> circle_gate(const Circle& circle, const CircleWaits& waits);

// What one program of a job takes and gives back of the pool's regions, for jobs that come in any
// order: by moment, in order.
struct RegionUse {
  int64_t moment = 0;
  std::vector<int32_t> takes, gives;  // takes at the moment, gives when it has passed
};
struct RegionProgram {
  int64_t moments = 0;
  std::vector<RegionUse> uses;
};
// The largest power of two from 2 to 64 MiB that wastes at most a hundredth of the pool at its end;
// of a small pool a hundredth, in whole grains of 64 bytes.
int64_t region_bytes_of(int64_t pool_bytes);
RegionProgram region_program(const StepShape& shape, const PoolOffsets& offset,
                             int64_t region_bytes);
// Each region from its first use in the step until its last, as if it were used all the while.
RegionProgram region_holds(const RegionProgram& program);

// Zico's pool, without a plan for the pair: a job takes a region only where no other holds it and
// none whose step began earlier still needs it in that step.
//
// No deadlock: of the jobs within a step let J be the one whose step began first. A region that J
// needs can be held only by a job that took it when J's need of it was not to be seen: J's step had
// not begun, or was of another program. Then that job's step began before J's, which is first, and
// so is over; and at the end of a step all its regions are free. So J never waits, ends its step,
// and the next is first. A job that fails leaves, and gives back what it held. None starves: a step
// that began is passed by no later one, so the longest waiting is soon the first.
//
// `programs`: by job, by program.
std::unique_ptr<PoolGate> ticket_gate(std::vector<std::vector<RegionProgram>> programs,
                                      int32_t regions);

// Nobody waits for anybody.
std::unique_ptr<PoolGate> open_gate();

// One step at a time, in the order in which they were asked for.
std::unique_ptr<PoolGate> turn_gate();

}  // namespace pal
