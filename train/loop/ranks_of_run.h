// A run of several ranks, from the launcher to the configuration that says what each does.
#pragma once
#include <memory>

#include "core/ranks/group.h"
#include "train/config/config.h"

namespace pal {

// The ranks that a launcher has started together; null where there is one.
std::shared_ptr<Group> ranks_at_hand();

// What a run of so many ranks trains by: null options of section train stand for values from here
// on, so that the run can go on with another number of ranks. Those of `saved`, the configuration
// of the run that goes on, come first. UsageError where the ranks cannot divide an update.
Config with_ranks(Config config, int64_t ranks, const Config* saved = nullptr);

}  // namespace pal
