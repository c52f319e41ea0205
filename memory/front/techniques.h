// What a front is never slower than: each technique alone, as a user would ask for it.
#pragma once
#include <vector>

#include "memory/front/candidate.h"

namespace pal {

// `plain`: without any technique. `copies`: swapping too.
std::vector<Family> techniques(const CompileOptions& plain, bool copies);
// Each lossy format alone, with what a technique makes again, and over some of the exact plans (the
// least last).
std::vector<Family> rounded(const CompileOptions& plain, const std::vector<FrontPoint>& exact);

}  // namespace pal
