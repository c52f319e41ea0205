// The front of a step: every plan known of it that no other beats in both bytes and time.
//
// The pool holds the step as it was recorded, each technique alone (mirror, sqrt, echo at five
// overheads, lossless encodings, swapping, echo with swapping), and for a fixed grid of sizes what
// is best made again or copied to the host (memory/front/choose.h). What is in it depends on no
// budget and on no clock. These are placed, by the greedy orders, and by search where that may
// matter to what is picked; a technique is judged by its bytes alive, which no placement goes
// below, and by its predicted time, and is placed where no other plan beats that. So pick() is
// never slower than a technique alone that fits, and never slower with a larger budget.
//
// A plan with copies takes the place of a slower one without. Where the host's memory does not do
// for what was picked, the front of a host_budget says what else there is.
#pragma once
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "memory/front/candidate.h"

namespace pal {

// A technique alone, for pictures: bytes alive at its peak, which no placement goes below.
struct FrontAlone {
  std::string from;
  int64_t bytes = 0;
  double step_ms = 0;
};

// No plan of whole nodes goes below these bytes: state, inputs, and what the largest node touches,
// or less where the bound or a plan does with less.
struct FrontFloor {
  int64_t bytes = 0;
  std::string node;  // "features/2 conv2d"
};

// What a step may take.
struct FrontLimits {
  int64_t device = 0;                                  // bytes
  int64_t host = std::numeric_limits<int64_t>::max();  // of copies
  double step_ms = std::numeric_limits<double>::infinity();
};

struct Front {
  std::vector<FrontPoint> points;  // ascending in bytes, descending in time
  FrontFloor floor;
  double plain_ms = 0;  // of the step as it was recorded
  std::vector<FrontAlone> alone;

  // Of the points in any order, those that no other beats, ascending in bytes.
  void keep_unbeaten();
  // The fastest within the limits; null where there is none.
  const FrontPoint* pick(const FrontLimits& limits) const;
  double overhead(const FrontPoint& point) const { return point.step_ms / plain_ms - 1; }
  // The part of the point's time that a faster plan could save at most.
  static double gap(const FrontPoint& point) { return 1 - point.bound_ms / point.step_ms; }
};

// What candidates may have beyond what leaves every bit as it is.
struct FrontChoices {
  bool lossy = false;  // rounded forms of maps
};

// These options without recomputation, encodings, swapping and a budget, as if none had been asked
// for.
CompileOptions without_techniques(CompileOptions options);

// `options`: what every candidate has (schedule, in-place, host_budget, profile); what they ask of
// recomputation, encodings, swapping and a budget does not count. With a host_budget copies take no
// more, and what there is without copies is among the points; at 0 nothing is copied. Without a
// profile, times are those of the card that echo goes by. UsageError where a dynamic manager is
// asked for. `workers`: threads that plan, which changes nothing of the front; without it, as many
// as the device's processors.
Front make_front(const Program& recorded, KernelCache& cache, const StateLayout& layout,
                 const CompileOptions& options, const FrontChoices& choices = {},
                 std::optional<int> workers = {});

}  // namespace pal
