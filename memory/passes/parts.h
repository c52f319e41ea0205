// Operators as the smaller ones that they are made of (Rewrite::When::split), for passes that
// repeat some of a step's work: what a batch norm's last part needs of its first are three numbers
// a channel, so a clone of the last alone makes a feature map again.
#pragma once
#include <span>

#include "core/program.h"
#include "core/rewrite.h"
#include "core/rewriter.h"

namespace pal {

// The step with every forward node of such an operator replaced by its parts. Values keep their
// numbers, and results are the same bits.
Program split_parts(const Program& program,
                    std::span<const Rewrite* const> rewrites = all_rewrites());

// Writes the parts of old node n in its place in the schedule, one after the other. What they hand
// to each other becomes new values.
void append_parts(Rewriter& out, NodeId n, const Node& node, const FusedPattern& parts);

}  // namespace pal
