// The compile options and the device that a configuration asks for.
#pragma once
#include <optional>
#include <string>

#include "core/device.h"
#include "memory/compile.h"
#include "train/config/config.h"

namespace pal {

CompileOptions compile_options(const MemoryConfig& config);
// The same for a run: copies may take 80 % of the host's memory that is free now, where
// memory.host_budget does not say how much.
CompileOptions run_options(const MemoryConfig& config);
// Whether a plan may round stashed values.
bool rounds(const MemoryConfig& config);
// Bytes of the host's memory that copies may take: memory.host_budget, or 80 % of what is free now.
int64_t host_limit(const MemoryConfig& config);
// Likewise for any machine, not this one: as much as there is where none is named.
int64_t host_limit_of_any(const MemoryConfig& config);
// UsageError where device.type asks for a GPU and there is none. `said`: a line for people, which
// device it is, and with auto why it is not a GPU. `gpu_number`: which of the machine's.
Device choose_device(const DeviceConfig& config, std::string* said = nullptr, int gpu_number = 0);
// The same for training, in the precision that train.precision asks for. UsageError where the
// device does not have it.
Device training_device(const Config& config, std::string* said = nullptr);

// The card whose times say which branches of a step get a queue of their own
// (CompileOptions::branch_device), with the room that it has now. None: the device is a processor,
// or device.branches is off.
std::optional<DeviceProfile> branch_device(const DeviceConfig& config, const Device& device,
                                           std::string* said = nullptr);

// What the bits of results depend on besides the configuration and the data.
std::string numerics_of(const Device& device);

}  // namespace pal
