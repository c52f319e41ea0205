// Measures what joins the ranks of a launch, for pal plan --devices.
#pragma once
#include "core/ranks/group.h"
#include "memory/price/links.h"

namespace pal {

// As the formula of exchange_seconds() has it, fitted to this group's own all_to_all and
// all_gather: of a few bytes for the latency, and of many for the rate. Every rank calls it, and
// all get the same. Ranks of one machine exchange by its memory; `seconds` is about what it takes.
Link measure_link(Group& group, double seconds = 2);

}  // namespace pal
