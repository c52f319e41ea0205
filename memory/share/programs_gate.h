// A circle on which each job may run any of several programs in a step's place
// (JobOnCircle::others): one address for each storage of each program, and waits for how far the
// others are in the circle's time, whatever they run.
#pragma once
#include <memory>
#include <vector>

#include "memory/share/gate.h"

namespace pal {

// Before `moment` of its step, a job waits until another has passed, in a step of it, the moment of
// the program that it runs there; -1: all steps before that one. Steps are counted as in
// CircleWait.
struct ProgramWait {
  int64_t moment = 0;
  JobId other = 0;
  int32_t other_step = 0;
  std::vector<int64_t> other_moment;  // by program of the other
};

// By job, by program, by step on the circle; by moment.
using ProgramWaits = std::vector<std::vector<std::vector<std::vector<ProgramWait>>>>;

// As waits_of(): each points backwards in the circle's time, of whatever programs, so that jobs
// that obey them never come to a stop. `paced`: also those of paced() (pace.h).
ProgramWaits program_waits_of(const Circle& circle, const PoolPlacement& placement,
                              bool paced = false, int64_t grain = 64);

// ProgramError where a wait does not point backwards.
void check_waits(const Circle& circle, const ProgramWaits& waits);

// PoolGate::begin_step's `program` is one of the job's on the circle, 0 its own shape.
std::unique_ptr<PoolGate> programs_gate(const Circle& circle, const ProgramWaits& waits);

}  // namespace pal
