// Writes what a dynamic manager decided into the program: nodes that run again, copies on queues of
// their own, and a place for all bytes from each taking to the next. So the step that runs, its
// checks (verify, check_plan), its recording on a GPU and its prediction are those of any plan.
#pragma once
#include "core/program.h"
#include "memory/dynamic/facts.h"
#include "memory/dynamic/policy.h"
#include "memory/plan/plan.h"

namespace pal {

struct Lowered {
  Program program;
  Storages storages;
  Plan plan;
};

// A storage that leaves and comes back is one storage more, with values of its own.
Lowered lowered(const StepFacts& facts, const Decisions& decisions, const StateLayout& layout);

}  // namespace pal
