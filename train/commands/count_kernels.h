// The kernels of a configuration's step, counted on the emulated GPU.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "train/config/config.h"
#include "train/report/kernel_report.h"

namespace pal {

// `bucket`: none: the largest. UsageError where this program has no emulated GPU, or cannot count
// what the configuration asks for.
KernelReport count_kernels(Config config, const std::string& name,
                           std::optional<std::pair<int64_t, int64_t>> bucket,
                           DeviceProfile profile);

}  // namespace pal
