// Recording a training step.
#include "train/loop/step_program.h"

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/error.h"
#include "core/scalars.h"
#include "ops/sums/gates.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "train/loop/ema.h"

namespace pal {
namespace {

OptimizerSpec optimizer_of(const TrainConfig& config) {
  OptimizerSpec spec;
  spec.kind = *config.optimizer;
  spec.momentum = float(*config.momentum);
  spec.beta1 = float(*config.beta1);
  spec.beta2 = float(*config.beta2);
  spec.eps = float(*config.eps);
  spec.weight_decay = float(*config.weight_decay);
  spec.decay_vectors = *config.decay_vectors;
  if (config.clip_value->has_value()) spec.clip_value = float(**config.clip_value);
  return spec;
}

// What the update may look at before it writes. Without clipping by norm it depends on the loss
// alone, so that updates need not wait for the last gradient.
Val gate_of(Val scalars, Val loss, const std::vector<Val>& partials, const TrainConfig& config) {
  if (!config.clip_norm->has_value()) return clip_norm_gate(scalars, loss, {});
  return clip_norm_gate(scalars, loss, partials, {.max_norm = float(**config.clip_norm)});
}

// Batch norm's running statistics, with every micro-batch.
void move_statistics(Builder& b, const std::vector<MovedStatistic>& moved, Val gate) {
  for (const MovedStatistic& each : moved) {
    const Node in_scope{.scope = b.program().value(each.batch.id).scope};
    Builder::Within where(b, in_scope, Phase::update);
    moving_average(each.running, each.batch, each.momentum, gate);
  }
}

}  // namespace

MicroBatch micro_batch_of(int64_t i, int64_t n) {
  if (n == 1) return MicroBatch::only;
  return i == 0 ? MicroBatch::first : i + 1 == n ? MicroBatch::last : MicroBatch::middle;
}

const char* to_string(MicroBatch kind) {
  static constexpr const char* names[] = {"only", "first", "middle", "last"};
  return names[size_t(kind)];
}

Program record_step(const std::function<Recorded(Builder&, Val scalars)>& forward,
                    const TrainConfig& config, MicroBatch kind) {
  Builder b;
  if (*config.precision == "bf16") b.read_weights_as(DType::bf16, cast);
  Val scalars = step_scalars(b.input(kScalarsInput, scalars_spec(), Space::host));
  Recorded recorded = forward(b, scalars);
  b.output("loss", recorded.loss);
  for (auto& [name, value] : recorded.outputs) b.output(name, value);

  std::vector<Val> weights, sums;
  std::vector<std::string> names;
  for (const StateSlot& slot : b.program().state) {
    if (slot.role != Role::weight) continue;
    weights.push_back({&b, slot.start});
    names.push_back(slot.name);
  }
  if (*config.accumulate > 1) {  // the same state in every program of the set
    for (size_t i = 0; i < weights.size(); ++i) {
      sums.push_back(b.state(kAccumulator + names[i], weights[i].spec(), Role::weight_gradient));
    }
  }
  const bool adds = kind == MicroBatch::middle || kind == MicroBatch::last;
  std::vector<Val> gradients =
      differentiate(b, recorded.loss, weights, adds ? sums : std::vector<Val>{});
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!gradients[i]) throw ProgramError("the loss does not depend on weight " + names[i]);
  }
  if (kind == MicroBatch::first || kind == MicroBatch::middle) {
    for (size_t i = 0; i < weights.size(); ++i) {
      Builder::Within scope(b, names[i]);
      assign(sums[i], gradients[i]);
    }
    const bool in_pair = *config.overlap_micro_batches;
    if (in_pair || !recorded.moved.empty()) {
      Builder::Within phase(b, Phase::backward);
      const Val gate = clip_norm_gate(scalars, recorded.loss, {});
      if (in_pair) b.output("gate", gate);  // the second's is shut with it
      move_statistics(b, recorded.moved, gate);
    }
    return b.take();
  }

  std::vector<Val> partials;
  {
    Builder::Within phase(b, Phase::backward);
    Builder::Within scope(b, "grad_norm");
    for (Val g : gradients) partials.push_back(sum_of_squares(g));
    Val gate = gate_of(scalars, recorded.loss, partials, config);
    b.output("gate", gate);
    b.output("grad_norm",
             config.clip_norm->has_value() ? gate : clip_norm_gate(scalars, {}, partials));
    apply_optimizer(b, optimizer_of(config), weights, gradients, scalars, gate);
    move_statistics(b, recorded.moved, gate);
    if (config.ema->has_value()) append_ema(b, weights, **config.ema, gate);
  }
  return b.take();
}

std::string step_name(std::pair<int64_t, int64_t> lengths, MicroBatch kind) {
  return "train/" + std::to_string(lengths.first) + "x" + std::to_string(lengths.second) + "/" +
         to_string(kind);
}

std::string pair_name(std::pair<int64_t, int64_t> lengths, MicroBatch first, MicroBatch second) {
  return step_name(lengths, first) + "+" + to_string(second);
}

Program record_bucket_step(const Task& task, const Config& config,
                           std::pair<int64_t, int64_t> bucket, MicroBatch kind) {
  auto forward = [&](Builder& b, Val scalars) {
    return task.record_lengths(b, bucket, scalars, true);
  };
  return record_step(forward, config.train, kind);
}

Program record_plan_step(const Task& task, const Config& config,
                         std::pair<int64_t, int64_t> bucket) {
  const int64_t n = *config.train.accumulate;
  return record_bucket_step(task, config, bucket, micro_batch_of(n - 1, n));
}

}  // namespace pal
