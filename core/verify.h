// The rules every program keeps, checked after every pass.
#pragma once
#include "core/program.h"

namespace pal {

// Throws ProgramError naming the node and the rule that is broken:
// - operands are made before they are read, and every value once;
// - outputs have the specs that the operator infers from its operands;
// - a value's producer is the node that makes it, and none where no node does;
// - a node waits only for earlier nodes of other queues, and for everything it reads from them;
// - only updates write state, once the loss exists, and after every reader of the old value.
void verify(const Program& program);

}  // namespace pal
