// train.bucket: auto, of several ranks.
#pragma once
#include <cstdint>
#include <utility>

#include "core/prepare.h"
#include "core/ranks/group.h"
#include "memory/compiled.h"
#include "train/loop/task.h"

namespace pal {

// Of 64 KiB to 64 MiB, each four times the one before, the size by which the step of the bucket of
// lengths is predicted to be fastest among those that fit the budget, of equals the largest; where
// none fits, that of the fewest bytes. Under memory.auto, whose plans fit with any size, the
// fastest for the step as it is recorded. 25 MiB where exchanges stay among the computation:
// nothing is priced then.
int64_t choose_bucket(const Task& task, const Config& config, std::pair<int64_t, int64_t> lengths,
                      KernelCache& kernels, CompileOptions options);

// The configuration with the size in the place of auto; of one rank as it is. `group`: the ranks of
// a run, which all call it and take what the first has chosen: others may have another processor.
Config with_bucket(Config config, const Task& task, std::pair<int64_t, int64_t> lengths,
                   KernelCache& kernels, const CompileOptions& options, Group* group = nullptr);

}  // namespace pal
