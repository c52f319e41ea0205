// Whether a step that fits as it was recorded may still be faster otherwise: then the fastest plan
// for its bytes is looked for all the same, or more bytes would cost time.
#pragma once
#include "core/prepare.h"
#include "core/program.h"
#include "memory/compiled.h"

namespace pal {

// Some maps would run again inside of kernels that read them in less time than it takes to read
// what was kept, kernels fuse where nothing runs again, or bits take less time than the values.
// `plain`: options without techniques. All are compared on one queue.
bool may_be_faster(const Program& recorded, KernelCache& cache, const StateLayout& layout,
                   const CompileOptions& plain);

// The options of the step with what fuses where nothing runs again.
CompileOptions fused_alone(CompileOptions plain);

}  // namespace pal
