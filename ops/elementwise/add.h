// y = a + b, and sums of more.
#pragma once
#include <vector>

#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef add_op, sum_of_op;
[[gnu::weak]] extern const Backend add_cuda, sum_of_cuda;

// a + b, elementwise; both of one shape and floating-point type. The sum of gradients.
Val add(Val a, Val b);

constexpr int kMostTerms = 64;  // of a node: a card's launch takes so many addresses
// (x0 + x1) + x2 + ..: in f32, and rounded once a node. Any number of terms.
Val sum_of(const std::vector<Val>& x);

struct Add {
  PAL_HD float operator()(float a, float b) const { return a + b; }
};

}  // namespace pal
