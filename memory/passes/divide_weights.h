// Weights of which every rank has its piece (ZeRO, Rajbhandari et al. 2020, stage 3): they are
// gathered right before they are read, and once more for the backward pass.
#pragma once
#include <cstdint>

#include "core/program.h"

namespace pal {

// A program that reads whole weights and has written none -> the same program where each weight's
// slot is this rank's piece. Nodes of the forward phase read wholes that an all_gather before the
// first of them brings; those of later phases read wholes of a second one, so that a whole is gone
// in between. A weight that no later phase reads is gathered once; one that is read at both ends of
// the forward phase (an embedding that makes the logits too) is gathered for each end. A weight
// that is only read through its copy in 16 bits is gathered as that copy.
//
// Weights that are first read one after the other travel together, up to `together` bytes; which
// and in what order follows from the order of first reads alone, not from how long a sequence is.
// Values keep their numbers: a slot's value at start is the whole from here on. ProgramError where
// a weight has been written.
Program divide_weights(const Program& program, int64_t ranks, int64_t together);
// Whether divide_weights() made the program, of weights that are read.
bool has_divided_weights(const Program& program);

// By value, of wholes: the one that is gathered again after the forward phase; kNone: there is
// none.
ByValue<ValueId> second_gathers(const Program& program);
// Clones (the recompute phase) read wholes that are gathered again, where there are any; the
// gathers come as early as the first clone needs, in their order.
Program read_second_gathers(Program program);

}  // namespace pal
