// What a run of several ranks arranges its exchanges for: the device of a rank, and what joins
// them.
#pragma once
#include <optional>
#include <string>

#include "core/device.h"
#include "memory/price/predict.h"
#include "train/config/config.h"

namespace pal {

// By train.link: named, or measured now, which all ranks do together; the slowest rank's times are
// what all go by. None where there is one rank, or where exchanges are to stay among the
// computation. `said` is told of the link.
std::optional<DeviceProfile> exchange_device(const Config& config, const Device& device,
                                             std::string* said);

}  // namespace pal
