// The whole training step as one program: scalars, forward, backward, gate, update.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "core/program.h"
#include "memory/passes/batch_parts.h"
#include "train/config/config.h"
#include "train/loop/micro_batch.h"
#include "train/loop/task.h"

namespace pal {

// "train/30x40/only": the name of a bucket's program, in a run's set and in its metrics.
std::string step_name(std::pair<int64_t, int64_t> lengths, MicroBatch kind);

inline constexpr const char* kScalarsInput = "scalars";  // host, one StepScalars
inline constexpr const char* kOwnLoss = "own_loss";      // of several ranks: this one's part

// Records a step around a forward pass. Outputs: "loss" f32[1] (this micro-batch's part; of the
// last of an update that is summed as a whole, that of all its micro-batches), what the forward
// pass named, and, where weights are updated, "gate" f32[4] {scale, apply, norm, -} and "grad_norm"
// likewise (element 2). With train.overlap_micro_batches every micro-batch has a "gate": it is shut
// where the loss is not finite. `ranks`: how many train together,
// `per_node` on each machine (0: machines are not told apart).
Program record_step(const std::function<Recorded(Builder&, Val scalars)>& forward,
                    const TrainConfig& config, MicroBatch kind, int64_t ranks = 1,
                    int64_t per_node = 0);

// "train/30x40/first+last": of two micro-batches side by side.
std::string pair_name(std::pair<int64_t, int64_t> lengths, MicroBatch first, MicroBatch second);

// The step of a bucket, for one micro-batch of an update.
Program record_bucket_step(const Task& task, const Config& config,
                           std::pair<int64_t, int64_t> bucket, MicroBatch kind);
// What train.batch_parts makes of that step; none where the batch is to stay whole.
std::optional<BatchParts> batch_parts_of(const Task& task, const Config& config,
                                         std::pair<int64_t, int64_t> bucket);
// The last micro-batch's training step of a bucket: the one with the largest footprint.
Program record_plan_step(const Task& task, const Config& config,
                         std::pair<int64_t, int64_t> bucket);

}  // namespace pal
