// A run of several ranks, from the launcher to the configuration that says what each does.
#pragma once
#include <memory>

#include "core/device.h"
#include "core/ranks/group.h"
#include "train/config/config.h"
#include "train/loop/train_args.h"

namespace pal {

// The ranks that a launcher has started together; null where there is one.
std::shared_ptr<Group> ranks_at_hand();

// UsageError, which names what differs and the ranks, where they were started with different
// builds, versions of MPI, configurations or flags. Where a machine may have its own number (of
// threads, of bytes for copies) they need not agree. One process is like itself.
void check_started_alike(const TrainArgs& args);

// Tells a device of the ranks that it trains with, null: none; those on GPUs find each other there,
// and `said` is told of it. `timeout`: seconds (train.rank_timeout). UsageError where two have one
// GPU, or only some have one.
void join_ranks(Device& device, const std::shared_ptr<Group>& group, double timeout,
                std::string* said);

// What a run of so many ranks trains by: null options of section train stand for values from here
// on, so that the run can go on with another number of ranks. Those of `saved`, the configuration
// of the run that goes on, come first. UsageError where the ranks cannot divide an update.
Config with_ranks(Config config, int64_t ranks, const Config* saved = nullptr);

}  // namespace pal
