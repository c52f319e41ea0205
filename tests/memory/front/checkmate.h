// The fastest way to keep a step within a number of bytes, as an integer program for CBC: the
// formulation of Checkmate (Jain et al. 2020, section 4), with one stage for each node after the
// forward phase.
//
// Before stage t runs its node, any forward nodes run again, in their order. S[t][a]: the bytes a
// are there when the stage begins; R[t][n]: node n runs again in it. At every node of a stage, of
// those that run again and of its own, what is there and is read later (in the stage, or by one
// that keeps it) fits.
//
// Bytes are counted as the planner counts them without in-place: state, two slots of inputs, and
// everything from its maker to its last reader, views as what they are views of (BoundGraph's
// atoms). A plan in the program's order without in-place takes at least that, so the optimum is not
// above the time of any such plan; the bound, which counts in-place, is not above the optimum.
#pragma once
#include <cstdint>
#include <optional>

#include "core/program.h"
#include "memory/compiled.h"

namespace pal::test {

struct CheckmateOptions {
  bool once = false;       // a node runs again at most once: the planner's own model
  bool transients = true;  // bytes while nodes run again; off: at the stages' own nodes alone
  int nodes = 200;         // of branch and bound, before CBC gives up
};

// Milliseconds. `least`: no way is faster; `found`: one that is this fast. Equal where CBC was
// done.
struct CheckmateTime {
  double least = 0, found = 0;
  bool proved = false, possible = true;
};

// `program`: recorded, each value its own origin.
CheckmateTime checkmate_time(const Program& program, const CompileOptions& options, int64_t bytes,
                             const CheckmateOptions& how = {});

}  // namespace pal::test
