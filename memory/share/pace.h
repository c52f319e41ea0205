// Jobs on a circle that keep their distance, also where no bytes ask for it: the shift decides
// which kernels meet, and some shifts are faster than those that jobs come to by themselves.
#pragma once
#include "memory/share/gate.h"

namespace pal {

// With one more wait for each other job, before a job's first step on the circle: until the other
// has passed what it has, as planned, by then. They point backwards in the circle's time.
CircleWaits paced(const Circle& circle, CircleWaits waits);

}  // namespace pal
