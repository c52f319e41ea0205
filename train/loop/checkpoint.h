// Saving and loading the state of a run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "memory/run/program_set.h"
#include "train/loop/sharded_state.h"
#include "train/loop/trainer_state.h"

namespace pal {

// Everything: weights, optimizer state, and where the run stands. Written beside and renamed. All
// ranks call these, and rank 0 writes.
void save_checkpoint(const std::filesystem::path& file, ProgramSet& programs,
                     const TrainerState& state, const ShardedState& sharded = {});
// What was loaded: the file, and the checksum of each of its tensors that was, a line each.
struct Loaded {
  std::filesystem::path file;
  std::string checksums;
};
// UsageError that lists every slot that is missing, left over, or of another shape; then nothing
// was loaded.
TrainerState load_checkpoint(const std::filesystem::path& file, ProgramSet& programs,
                             const ShardedState& sharded = {}, Loaded* loaded = nullptr);

// Keeps last.safetensors of `folder` as step-<step>.safetensors too, by a second name for the same
// file where the file system can, else by a copy; and removes all but the `keep` newest of these.
// 0: does nothing.
void keep_checkpoint(const std::filesystem::path& folder, int64_t step, int64_t keep);

// The steps of those that are kept, newest first, and the file of one.
std::vector<int64_t> kept_checkpoints(const std::filesystem::path& folder);
std::filesystem::path kept_checkpoint(const std::filesystem::path& folder, int64_t step);

// The file that train.init_from means: a .safetensors file, or of a run's folder its
// best.safetensors, else its last. UsageError where it has neither.
std::filesystem::path initial_file(const std::filesystem::path& from);
// Its weights. UsageError that lists what does not fit; nothing is loaded then.
Loaded load_initial(const std::filesystem::path& file, ProgramSet& programs,
                    const ShardedState& sharded = {});

// Whether a whole checkpoint's tensor is a weight, going by its name.
bool names_weight(const std::string& tensor);

// Weights alone, as best.safetensors holds them. Loading takes them from a whole checkpoint too; a
// weight in the file that the model does not have is a mismatch like any other.
void save_weights(const std::filesystem::path& file, ProgramSet& programs,
                  const ShardedState& sharded = {});
Loaded load_weights(const std::filesystem::path& file, ProgramSet& programs,
                    const ShardedState& sharded = {});

}  // namespace pal
