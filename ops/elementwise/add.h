// y = a + b.
#pragma once
#include "core/op.h"
#include "core/philox.h"  // PAL_HD
#include "core/val.h"

namespace pal {

extern const OpDef add_op;

// a + b, elementwise; both of one shape and floating-point type. The sum of gradients.
Val add(Val a, Val b);

struct Add {
  PAL_HD float operator()(float a, float b) const { return a + b; }
};

}  // namespace pal
