// A way to make a step: as all passes leave it (Candidate), and placed (FrontPoint).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory/compile.h"

namespace pal {

struct Candidate {
  CompileOptions options;
  std::string from;
  int64_t alive = 0;                       // bytes at its peak
  double ms = 0;                           // of a step
  std::shared_ptr<const Compiled> passed;  // null: not judged, or of no more use
};

// What passes remember of one helps with the next.
using Family = std::vector<Candidate>;

inline Family alone(Candidate one) {
  Family family;
  family.push_back(std::move(one));
  return family;
}

struct FrontPoint {
  CompileOptions options;  // compile() makes this plan of them
  std::string recording;   // of several, the one that these are options for; "": there is one
  std::string from;        // "echo 9 %", "chosen for 1.20 GB"
  int64_t bytes = 0;       // placed, with the state
  double step_ms = 0;      // predicted
  // No plan of so many bytes is faster (memory/front/bound.h); 0: not known, by measured times.
  double bound_ms = 0;
  // Bytes of feature maps that the backward pass reads: kept as they are, made again, kept in other
  // forms, and copied to the host's memory; and what the host holds at most.
  int64_t kept = 0, recomputed = 0, encoded = 0, offloaded = 0, host = 0;
};

}  // namespace pal
