// Programs as text that a person reads and a test compares, and as a Graphviz graph.
#pragma once
#include <string>

#include "core/memory.h"
#include "core/program.h"

namespace pal {

// One line a node:  forward %5 = embedding(%1, %0) padding=0 : f32[10,4,8]  # encoder/embed t=2
// With storages, each value is followed by its storage: %5@3, or %5@3+256 for a window.
std::string print(const Program& program, const Storages* storages = nullptr);
std::string print_node(const Program& program, NodeId node, const Storages* storages = nullptr);

// For `dot -Tsvg`: nodes as boxes coloured by phase, values as edges.
std::string to_dot(const Program& program);

}  // namespace pal
