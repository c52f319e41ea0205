// Operators as the smaller ones that they are made of (OpDef::parts), for passes that repeat some
// of a step's work: what a batch norm's last part needs of its first are three numbers a channel,
// so a clone of the last alone makes a feature map again.
#pragma once
#include "core/op.h"
#include "core/program.h"

namespace pal {

// The step with every forward node of such an operator replaced by its parts. Values keep their
// numbers, and results are the same bits.
Program split_parts(const Program& program);

}  // namespace pal
