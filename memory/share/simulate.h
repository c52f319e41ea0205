// Jobs on one device, side by side, as time would go: discrete events, nothing runs.
//
// A node launches, and then works; at work it uses parts of the device (memory/price/demand.h).
// Where the nodes at work together ask for more than all of a resource, those that use it work
// slower by that factor. Who goes first has what it asks for, and the others share the rest.
// (NVIDIA's scheduler is not documented; blocks of kernels of two streams share multiprocessors as
// they become free, those of the stream with the higher priority before others.)
#pragma once
#include <cstdint>
#include <vector>

#include "memory/share/gate.h"
#include "memory/share/step_shape.h"

namespace pal {

struct SimulatedJob {
  std::vector<const StepShape*> programs;  // that it runs in turn, again and again
  double speed = 1;                        // of its nodes, to try what jobs do that are late
};

struct SimulatedSpan {  // a step
  double begin_ms = 0, end_ms = 0;
};

struct SimulatedRun {
  double ms = 0;
  // By job.
  std::vector<double> rate;       // of the time after the first quarter: steps relative to alone
  std::vector<double> waited_ms;  // for the gate
  std::vector<std::vector<SimulatedSpan>> steps;
  bool stuck = false;  // everybody waited for somebody

  // Steps a second relative to those of turns: the sum of the rates (under turns it is 1).
  double total() const;
};

// What a node must have in the device's memory before it works, where memory is not planned.
class NodeMemory {
 public:
  virtual ~NodeMemory() = default;
  // How long the link is busy before the node can work; called once for each run of a node. Jobs
  // that wait for the link at once share it.
  virtual double fetch_ms(JobId job, size_t program, size_t node) = 0;
};

// Whose nodes the device begins before others' that wait too (Accelerator::prefer).
struct Preference {
  JobId job = -1;      // this job's; -1: nobody's
  bool light = false;  // those that leave some of the device to others, whoever's they are

  bool any() const { return job >= 0 || light; }
  bool of(JobId id, const NodeDemand& node) const {
    return id == job || (light && node.is_light());
  }
};

struct SimulateOptions {
  Preference first = {};
  NodeMemory* memory = nullptr;
  double* clock = nullptr;  // where to keep the time, for gates that go by it
};

// For `ms` of the simulated clock.
SimulatedRun simulate(const std::vector<SimulatedJob>& jobs, PoolGate& gate, double ms,
                      const SimulateOptions& options = {});

}  // namespace pal
