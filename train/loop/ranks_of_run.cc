// One process that a launcher has started by itself is as good as none.
#include "train/loop/ranks_of_run.h"

#include <algorithm>

#include "core/error.h"
#include "core/ranks/launch.h"
#include "train/loop/micro_batch.h"
#include "train/run_files/log.h"

namespace pal {

std::shared_ptr<Group> ranks_at_hand() {
  const std::optional<Launch> launch = launch_at_hand();
  if (!launch || launch->ranks == 1) return nullptr;
  std::shared_ptr<Group> group = open_group(*launch);
  if (group->size() != launch->ranks) {
    throw UsageError("ranks: " + launch->by + " says " + std::to_string(launch->ranks) + ", " +
                     group->description() + " finds " + std::to_string(group->size()) +
                     "; start the ranks with the mpirun (or srun --mpi=pmix) of the same MPI");
  }
  log_as_rank(group->rank());
  return group;
}

namespace {

// What runs of several ranks do not have.
void check_options(const Config& config) {
  const auto refuse = [](const std::string& option, const std::string& why) {
    throw UsageError(option + " does not combine with several ranks: " + why +
                     "; leave it out, or train with one");
  };
  const MemoryConfig& memory = config.memory;
  if (*memory.manager != Manager::fixed) {
    refuse("memory.manager: " + name_of(*memory.manager), "a manager's step knows no exchange");
  }
  const std::vector<std::string>& encode = *memory.encode;
  if (std::find(encode.begin(), encode.end(), "ssdc") != encode.end()) {
    refuse("memory.encode: ssdc", "a step that overflows runs again on one rank alone");
  }
  if (chooses_plan(memory) && allows(memory, "lossy")) {
    refuse("memory.allow: lossy", "each rank would choose by itself which values it rounds");
  }
  if (*config.train.exchange == "bf16" && !is_ordered(config.train, config.ranks)) {
    throw UsageError(
        "train.exchange: bf16 needs train.reduction: ordered, which adds in f32 what has "
        "travelled; set it, or leave one of them out");
  }
  if (*config.train.overlap_micro_batches) {
    refuse("train.overlap_micro_batches", "their sums belong to one micro-batch after the other");
  }
}

}  // namespace

Config with_ranks(Config config, int64_t ranks, const Config* saved) {
  config.ranks = ranks;
  TrainConfig& train = config.train;
  if (saved && !train.accumulate->has_value()) train.accumulate = micro_batches(saved->train);
  if (saved && !train.reduction->has_value()) {
    train.reduction = is_ordered(saved->train) ? "ordered" : "library";
  }
  check_ranks(train, ranks);
  if (ranks > 1) check_options(config);
  train.accumulate = micro_batches(train, ranks);
  train.reduction = is_ordered(train, ranks) ? "ordered" : "library";
  check_config(config);
  return config;
}

}  // namespace pal
