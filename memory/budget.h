// Whether a plan keeps to its budget, and what to say when it does not.
#pragma once
#include <cstdint>
#include <functional>

#include "memory/compiled.h"

namespace pal {

// The bytes that the step as it was recorded needs with other options.
using NeedOf = std::function<int64_t(const CompileOptions&)>;

// BudgetError when the plan must fit options.budget and needs more: by how much, what is alive at
// the peak, and which options would make it fit, with the bytes that it needs then. Other options
// are tried for about `seconds`, the one most likely to help first.
void check_budget(const Compiled& compiled, const CompileOptions& options, const NeedOf& need_of,
                  double seconds = 2);

}  // namespace pal
