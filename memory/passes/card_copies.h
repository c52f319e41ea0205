// Copies of state that a card's kernels would make by themselves each time.
#pragma once
#include <optional>
#include <string>

#include "core/program.h"

namespace pal {

// One copy of each state that nodes read in another type on a card (OpDef::card_type), made as the
// step begins: beside the other copies, so that one node makes them all, else where the first is
// read. Who reads it behind the first backward node makes its own. Nothing where there are none.
std::optional<Program> card_copies(const Program& program, std::string* note = nullptr);

}  // namespace pal
