// The scheduler of Zico (Lim et al. 2021, sections 4 to 6), for comparison with ours: it plans
// nothing beforehand, watches when regions are taken and given, and delays steps.
//
//   regions    Feature maps, which live over the peak (section 6.2), fill regions in the order in
//              which they are made. A job's own bytes and everything else of its step are local to
//              it. A job takes any free region; only their number is limited.
//   profiling  A job's first step runs with no other beside it, to see when it takes and gives each
//              region.
//   informed   Before a step, with what was seen last, the bytes of all jobs are followed through
//              the step. Where they would be more than the budget, the step waits, and asks again
//              as time goes on (TimeShift). What was seen is renewed after each step. The budget
//              begins at a part of what there is, and is raised.
//   fallback   Where a job meets no free region all the same, it waits for the jobs whose steps
//              began before its own. Where its own is the first, nobody will give it one: it takes
//              more than there is, and from then on jobs go in turns.
//
// That is the scheduler as the simulator has it. In a pool with addresses regions are places, and
// who may take one is decided by tickets (gate.h), so that there is never more than there is: a
// step then may also have to wait for a region that nobody has, but that one that began earlier
// will need. Some such steps in a row, and jobs go in turns.
//
// No deadlock: a job alone may always begin, and within steps the tickets' argument holds, since a
// ticket is drawn when a step begins and not when it is asked for. None starves: who was passed
// over some times is passed no more.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "memory/share/gate.h"
#include "memory/share/zico_job.h"

namespace pal {

struct ZicoOptions {
  double first_part = 0.6;  // of the budget, at first
  double raise = 0.1;
  int steps_to_raise = 10;  // of all jobs together
  int wrong_steps = 3;      // of one job in a row, in a pool with addresses; then turns
};

// A pool in which regions are places. A program's first step is seen alone, as a job's.
struct ZicoPool {
  // By job, by program: each region taken and given once in a step (region_holds).
  std::vector<std::vector<RegionProgram>> programs;
  int64_t region_bytes = 0;
  int32_t regions = 0;
  int64_t own_bytes = 0;  // of all jobs, beside the pool
};

class ZicoGate : public PoolGate {
 public:
  virtual bool gave_up() const = 0;                // and takes turns
  virtual int64_t most_bytes() const = 0;          // that were held at once
  virtual double shifted_ms(JobId job) const = 0;  // how long its steps were delayed, in all
};

// `budgets`: from which time on how many bytes there are, the first from 0. `clock` is the time in
// milliseconds, and must outlive the gate. ProgramError where a job does not fit beside what is
// local to the others.
std::unique_ptr<ZicoGate> zico_gate(std::vector<ZicoJob> jobs,
                                    std::vector<std::pair<double, int64_t>> budgets,
                                    const double* clock, const ZicoOptions& options = {});
std::unique_ptr<ZicoGate> zico_gate(ZicoPool pool, const double* clock,
                                    const ZicoOptions& options = {});

}  // namespace pal
