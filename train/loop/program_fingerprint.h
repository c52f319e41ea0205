// A number that stands for a program.
#pragma once
#include "core/program.h"
#include "train/run_files/fingerprint.h"

namespace pal {

// Its values, nodes with their attributes, state, inputs and outputs. Equal in processes of one
// build alone.
void take_program(Fingerprint& fingerprint, const Program& program);

}  // namespace pal
