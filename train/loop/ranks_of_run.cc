// One process that a launcher has started by itself is as good as none.
#include "train/loop/ranks_of_run.h"

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

Config with_ranks(Config config, int64_t ranks, const Config* saved) {
  config.ranks = ranks;
  TrainConfig& train = config.train;
  if (saved && !train.accumulate->has_value()) train.accumulate = *saved->train.accumulate;
  if (saved && !train.reduction->has_value()) train.reduction = *saved->train.reduction;
  check_ranks(train, ranks);
  train.accumulate = micro_batches(train, ranks);
  train.reduction = is_ordered(train, ranks) ? "ordered" : "library";
  check_config(config);
  return config;
}

}  // namespace pal
