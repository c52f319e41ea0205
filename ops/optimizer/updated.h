// One element of a weight and of the optimizer's states, after an update.
#pragma once
#include "core/host_device.h"

namespace pal {

struct Updated {
  float w, first = 0, second = 0;  // what the optimizer has no state for is 0
};

}  // namespace pal
