// y = a + b.
#pragma once
#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef add_op;
[[gnu::weak]] extern const Backend add_cuda;

// a + b, elementwise; both of one shape and floating-point type. The sum of gradients.
Val add(Val a, Val b);

struct Add {
  PAL_HD float operator()(float a, float b) const { return a + b; }
};

}  // namespace pal
