// The order of a step's exchanges, where a pass has inserted some.
#pragma once
#include "core/program.h"

namespace pal {

// Every exchange waits for the one before it, and for nothing else.
void order_exchanges(Program& program);

}  // namespace pal
