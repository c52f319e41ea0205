// The front of a step: every plan known of it that no other beats in both bytes and time.
//
// The pool holds the step as it was recorded, each technique alone (mirror, sqrt, echo at five
// overheads, lossless encodings, swapping, echo with swapping), and for a fixed grid of targets the
// steps that prices lead to (memory/front/dual.h), alone and swapped further down where the device
// has a link. What is in it depends on no budget and on no clock. A candidate is judged by its
// bytes alive, which no placement goes below, and by its predicted time; only those that are not
// beaten are placed. So pick() is never slower than a technique alone that fits, and never slower
// with a larger budget.
#pragma once
#include <string>
#include <vector>

#include "memory/compile.h"

namespace pal {

struct FrontPoint {
  CompileOptions options;  // compile() makes this plan of them
  std::string recording;   // of several, the one that these are options for; "": there is one
  std::string from;        // "echo 9 %", "priced for 1.20 GB, swapped"
  int64_t bytes = 0;       // placed, with the state
  double step_ms = 0;      // predicted
  // Bytes of feature maps that the backward pass reads: kept as they are, made again, kept in other
  // forms, and copied to the host's memory; and what the host holds at most.
  int64_t kept = 0, recomputed = 0, encoded = 0, offloaded = 0, host = 0;
};

// A technique alone, for pictures: bytes alive at its peak, which no placement goes below.
struct FrontAlone {
  std::string from;
  int64_t bytes = 0;
  double step_ms = 0;
};

// State, inputs, and what one node touches: no plan of whole nodes goes below.
struct FrontFloor {
  int64_t bytes = 0;
  std::string node;  // "features/2 conv2d"
};

struct Front {
  std::vector<FrontPoint> points;  // ascending in bytes, descending in time
  FrontFloor floor;
  double plain_ms = 0;  // of the step as it was recorded
  std::vector<FrontAlone> alone;

  // The fastest that fits; null where none does.
  const FrontPoint* pick(int64_t budget) const;
  double overhead(const FrontPoint& point) const { return point.step_ms / plain_ms - 1; }
};

// What candidates may have beyond what leaves every bit as it is.
struct FrontChoices {
  bool lossy = false;  // rounded forms of maps
};

// `options`: what every candidate has (schedule, in-place, host_budget, profile); what they ask of
// recomputation, encodings, swapping and a budget does not count. Without a profile, times are
// those of the card that echo goes by. UsageError where a dynamic manager is asked for.
Front make_front(const Program& recorded, KernelCache& cache, const StateLayout& layout,
                 const CompileOptions& options, const FrontChoices& choices = {});

}  // namespace pal
