// Weight updates as soon as they can run.
#pragma once
#include <string>
#include <vector>

#include "core/program.h"

namespace pal {

// Every node once, after all that it depends on: updates, and what leads from weight gradients to
// updates alone, right after the last node that they wait for; the others in the program's
// sequence.
std::vector<NodeId> early_updates_order(const Program& program);

// Updates that run before some node, no update itself, which the program runs before them.
int updates_moved(const Program& program, const std::vector<NodeId>& order);

// "early updates blocked by clip_norm" where updates wait for a gate made of the gradients; else
// "".
std::string early_updates_blocked(const Program& program);

}  // namespace pal
