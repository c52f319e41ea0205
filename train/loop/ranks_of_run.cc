// One process that a launcher has started by itself is as good as none.
#include "train/loop/ranks_of_run.h"

#include <algorithm>
#include <variant>

#include "core/accelerator.h"
#include "core/error.h"
#include "core/ranks/device_group.h"
#include "core/ranks/launch.h"
#include "core/text.h"
#include "core/version.h"
#include "train/loop/micro_batch.h"
#include "train/loop/rank_talk.h"
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

// What all ranks are to be told: a machine may have other numbers of threads than another.
std::string as_all_are_told(Config config) {
  config.device.threads = std::nullopt;
  config.memory.host_budget = std::nullopt;
  if (auto* images = std::get_if<ImageConfig>(&config.data)) images->workers = std::nullopt;
  return dump_config(config);
}

}  // namespace

void check_started_alike(const TrainArgs& args) {
  if (!args.group) return;
  const auto flag = [](bool given) { return given ? "given" : "not given"; };
  RankTalk(args.group)
      .require_alike({{"the build of pal", std::string(kVersion) + " " + build_id()},
                      {"the version of MPI", args.group->description()},
                      {"--resume", flag(args.resume)},
                      {"--dry-run", flag(args.dry_run)},
                      {"the configuration", as_all_are_told(args.config)}});
}

namespace {

struct Identity {
  char text[64] = "";  // of a rank's GPU; empty: it has none
};

// NCCL would wait for ever, or say "invalid usage".
void check_gpus(const std::vector<Identity>& all) {
  const auto both = [](size_t p, size_t q) {
    return "ranks: rank " + std::to_string(p) + " and rank " + std::to_string(q);
  };
  for (size_t q = 1; q < all.size(); ++q) {
    const std::string own = all[q].text;
    if (own.empty() != std::string(all[0].text).empty()) {
      throw UsageError(both(0, q) +
                       " differ in their device: one has a GPU, the other none; give "
                       "all the same with --device");
    }
    for (size_t p = 0; p < q && !own.empty(); ++p) {
      if (own != all[p].text) continue;
      throw UsageError(both(p, q) + " are on one GPU (" + own +
                       "), and each needs its own; start "
                       "as many ranks on a machine as it has GPUs (CUDA_VISIBLE_DEVICES may hide "
                       "some), or give --device cpu");
    }
  }
}

}  // namespace

void join_ranks(Device& device, const std::shared_ptr<Group>& group, double timeout,
                std::string* said) {
  device.group = group;
  if (!group) return;
  Identity own;
  if (device.accelerator) {
    device.accelerator->identity().copy(own.text, sizeof own.text - 1);
  }
  check_gpus(share_among(*group, own));
  if (!device.accelerator) return;
  const auto lost = [group](const std::string& what) {
    log_error(what);
    group->abandon(kExitFailed);
  };
  device.device_group = join_devices(device, {.timeout = timeout, .lost = lost});
  if (!said) return;
  *said += "; " + device.device_group->description() + " holds " +
           format_bytes(device.device_group->device_bytes()) + " of it, beside the plan";
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
