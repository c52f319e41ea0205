// Batches that are divided among ranks, for operators that look at a batch as a whole
// (OpDef::over_ranks): batch norm takes its statistics of all ranks' rows.
#pragma once
#include <cstdint>

#include "core/program.h"

namespace pal {

// A recorded step, forward and backward pass, of one rank's part of a batch -> the same step where
// such nodes are their parts with an exchange between, so that results are those of the batches
// that all ranks hold at one time. Values keep their numbers.
Program over_ranks(const Program& program, int64_t ranks);

}  // namespace pal
