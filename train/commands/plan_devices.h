// pal plan --devices N --link NAME: the flags, and the device that a plan is for.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "train/commands/commands.h"
#include "train/commands/flags.h"

namespace pal {

struct DeviceFlags {
  std::optional<int64_t> devices, per_node;
  std::string link;

  void declare(Flags& flags);
  // Puts the ranks into the configuration, and what joins them into the arguments. UsageError where
  // flags do not fit together or an update cannot be divided.
  void apply(PlanArgs& args) const;
};

// The device of --profile, with links where there are several.
DeviceProfile profile_of(const PlanArgs& args);
// The same where exchanges are to have a queue of their own: of several ranks, without train.link:
// none.
std::optional<DeviceProfile> exchange_device_of(const PlanArgs& args);
// The same where branches are to have a second queue: of a card that --profile names, where
// device.branches is on.
std::optional<DeviceProfile> branch_device_of(const PlanArgs& args);

}  // namespace pal
