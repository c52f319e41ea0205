// Jobs side by side, again and again: a circle of time on which some steps of each job lie, and
// addresses for what they share.
//
// Every storage has one address in the pool, whichever of its job's steps on the circle it lives
// in, so that recordings stay valid. Zico (Lim et al. 2021) gives whole regions to one job at a
// time, and finds the shift between two jobs while they run; here both are chosen beforehand.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/place/buffers/deadline.h"
#include "memory/share/step_shape.h"

namespace pal {

// One job's steps on the circle, one right behind the other.
struct JobOnCircle {
  const StepShape* shape = nullptr;
  int steps = 1;
  int64_t begins = 0;  // ticks: of the first step
  int64_t lasts = 0;   // ticks that each step takes, no fewer than alone
  // Other programs of the job, its other buckets say, any of which may run in a step's place: how
  // far they are is counted in the circle's time, in which all last equally long.
  std::vector<const StepShape*> others = {};

  size_t programs() const { return 1 + others.size(); }
  const StepShape& program(size_t p) const { return p == 0 ? *shape : *others[p - 1]; }
  // When a moment of step `i` comes, on a line: it may be a period or more.
  int64_t time(int i, int64_t moment, size_t program = 0) const;
};

struct Circle {
  int64_t period = 0;  // ticks
  std::vector<JobOnCircle> jobs;
};

// ProgramError where a job's steps do not fit the period, or are shorter than any program alone.
void check_circle(const Circle& circle);

// Most bytes of the pool alive at once: no placement is lower.
int64_t most_alive(const Circle& circle);

// Where everything of a job lies that it shares: by buffer of its shape, in the pool.
using PoolOffsets = std::vector<int64_t>;

struct PoolPlacement {
  std::vector<PoolOffsets> offset = {};               // by job
  std::vector<std::vector<PoolOffsets>> others = {};  // by job, by other program
  int64_t height = 0;                                 // bytes of the pool
  int64_t lower_bound = 0;                            // most_alive()
};

// What a storage begins at in the pool.
int64_t offset_of(const PoolPlacement& placement, size_t job, size_t program, size_t buffer);

// First fit by several orders; the lowest, or the first within `enough` bytes.
PoolPlacement place_on(const Circle& circle, int64_t enough = 0, const Deadline& deadline = {});

// For jobs whose steps come in any order and at any time: each placed for itself, the longest-lived
// first, so that what lives for a moment only lies furthest from where it starts. Odd jobs count
// down from the top of the pool, whose height is the largest job's, or `height` if that is more.
PoolPlacement place_apart(std::span<const StepShape* const> shapes, int64_t height = 0);

// Offsets of one job from the bottom of a pool, and its height: the longest-lived first.
int64_t place_longest_first(const StepShape& shape, PoolOffsets& offset);

// ProgramError where two storages that are alive together overlap.
void check_placement(const Circle& circle, const PoolPlacement& placement);

}  // namespace pal
