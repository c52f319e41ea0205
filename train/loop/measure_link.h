// Measures what joins the ranks of a launch: for pal plan --devices, and for runs.
#pragma once
#include <cstdint>

#include "core/device.h"
#include "core/ranks/group.h"
#include "memory/price/links.h"

namespace pal {

// How long it takes: at least `seconds`, and five calls of each kind.
struct LinkTrial {
  double seconds = 2;
  int64_t many = 8 << 20;  // bytes of a rank's piece, of the order of a bucket's
};

// As the formula of exchange_seconds() has it, fitted to this group's own all_to_all and
// all_gather: of a few bytes for the latency, and of many for the rate. Every rank calls it, and
// all get the same. Ranks of one machine exchange by its memory.
Link measure_link(Group& group, LinkTrial trial = {});
// The same of what joins the devices of device.device_group.
Link measure_device_link(const Device& device, LinkTrial trial = {});

}  // namespace pal
