// Recording a training step.
#include "train/loop/step_program.h"

#include <optional>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/error.h"
#include "core/scalars.h"
#include "memory/passes/divide_weights.h"
#include "memory/passes/over_ranks.h"
#include "ops/elementwise/add.h"
#include "ops/sums/gates.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"
#include "train/loop/bucket_sums.h"
#include "train/loop/ema.h"
#include "train/loop/sums_over_ranks.h"

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

// The sums that micro-batches before this one have left, by accumulator; none where there is one.
class Accumulators {
 public:
  // The same state in every program of the set.
  Accumulators(Builder& b, const Update& update, const std::vector<std::string>& names,
               const std::vector<Val>& like) {
    for (int level = 0; level < update.accumulators(); ++level) {
      const std::string prefix = kAccumulator + (level ? std::to_string(level) + "/" : "");
      std::vector<Val>& sums = levels_.emplace_back();
      for (size_t i = 0; i < names.size(); ++i) {
        sums.push_back(b.state(prefix + names[i], like[i].spec(), Role::weight_gradient));
      }
    }
  }
  const std::vector<Val>& level(int level) const { return levels_.at(size_t(level)); }

  // x and the sums that this micro-batch adds; number i of each. None of them is a map.
  Val added(MicroBatch kind, size_t i, Val x) const {
    for (size_t level = 0; level < levels_.size(); ++level) {
      if (!(kind.adds >> level & 1)) continue;
      x = add(levels_[level][i], x);
      x.builder->program().value(x.id).role = Role::weight_gradient;
    }
    return x;
  }
  // x in the place of what it adds: the accumulator that the micro-batch's sum goes to.
  void keep(MicroBatch kind, size_t i, Val x) const { assign(level(kind.stores)[i], x); }

 private:
  std::vector<std::vector<Val>> levels_;
};

// Records what follows the forward pass.
class StepRecorder {
 public:
  StepRecorder(Builder& b, const TrainConfig& config, MicroBatch kind, Update update, Val scalars,
               Recorded recorded)
      : b_(b),
        config_(config),
        kind_(kind),
        update_(update),
        scalars_(scalars),
        optimizer_(optimizer_of(config)),
        recorded_(std::move(recorded)) {
    for (const StateSlot& slot : b.program().state) {
      if (slot.role != Role::weight) continue;
      weights_.push_back({&b, slot.start});
      names_.push_back(slot.name);
    }
    owned_ = weights_;
    if (gathers_weights()) optimizer_.ranks = update.ranks();
  }

  void record() {
    const Val loss = update_.is_whole() ? make_loss() : recorded_.loss;
    b_.output("loss", loss);  // before any state is written
    std::vector<Val> gradients = make_gradients();
    if (update_.syncs_norms()) b_.program() = over_ranks(b_.take(), update_.ranks());
    if (update_.divides_weights()) divide();
    // Behind the backward pass: where layers run again, it has brought their statistics too.
    std::optional<KeptStatistics> statistics;
    if (update_.is_whole()) statistics.emplace(b_, update_, kind_, recorded_.moved, scalars_);
    if (!kind_.updates()) {
      if (!statistics) move_own_statistics();
      return;
    }
    const bool early = gathers_weights() && !update_.sums_each() && !config_.clip_norm->has_value();
    const Val gate = early ? update_by_buckets(gradients, loss) : update_all(gradients, loss);
    if (statistics) {
      statistics->move(gate);
    } else {
      move_statistics(b_, recorded_.moved, gate);
    }
    if (config_.ema->has_value()) {
      append_ema(b_, owned_, **config_.ema, gate, optimizer_.ranks);
    }
  }

 private:
  // Of all micro-batches and ranks in the last; in the others this one's, added to what is kept.
  Val make_loss() {
    Builder::Within phase(b_, Phase::backward);
    const Accumulators losses(b_, update_, {"loss"}, {recorded_.loss});
    Val loss = losses.added(kind_, 0, recorded_.loss);
    if (!kind_.updates()) {
      losses.keep(kind_, 0, loss);
      return recorded_.loss;
    }
    if (update_.ranks() > 1) b_.output(kOwnLoss, loss);
    return sum_over_ranks(loss, update_);
  }

  // The gradients with what accumulators add to them; kept, where nothing is updated yet.
  std::vector<Val> make_gradients() {
    const bool folds = kind_.folds && !update_.sums_each();
    std::optional<Accumulators> sums;
    if (!update_.sums_each()) sums.emplace(b_, update_, names_, weights_);
    std::vector<Val> gradients = differentiate(
        b_, recorded_.loss, weights_, folds && kind_.adds ? sums->level(0) : std::vector<Val>{});
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (!gradients[i]) throw ProgramError("the loss does not depend on weight " + names_[i]);
    }
    if (update_.sums_each()) {
      gradients = sum_over_ranks(b_, gradients, update_, bucket_bytes(config_));
      sums.emplace(b_, update_, names_, gradients);
    }
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (!folds && kind_.adds) {
        const Node in_scope{.scope = b_.program().value(gradients[i].id).scope};
        Builder::Within where(b_, in_scope, Phase::backward);
        gradients[i] = sums->added(kind_, i, gradients[i]);
      }
      if (kind_.updates()) continue;
      Builder::Within scope(b_, names_[i]);
      sums->keep(kind_, i, gradients[i]);
    }
    return gradients;
  }
  // What the forward and the backward pass read as weights is gathered from here on.
  void divide() {
    b_.program() = divide_weights(b_.take(), update_.ranks(), bucket_bytes(config_));
    for (size_t i = 0; i < names_.size(); ++i) {
      owned_[i].id = b_.program().find_state(names_[i])->start;
    }
  }
  bool gathers_weights() const { return update_.has_pieces() && !update_.divides_weights(); }
  // Each returns the gate of the updates.
  Val update_all(std::vector<Val> gradients, Val loss) {
    if (!update_.sums_each()) {
      gradients = sum_over_ranks(b_, gradients, update_, bucket_bytes(config_));
    }
    const Val gate = finish(gradients, loss);
    apply_optimizer(b_, optimizer_, owned_, gradients, scalars_, gate, weights_);
    if (gathers_weights()) gather_weights(b_, weights_, update_, bucket_bytes(config_));
    return gate;
  }
  // Where nothing but the loss decides about updates: the weights of a bucket are gathered behind
  // the sums of the next, so that exchanges need not wait for the last gradient.
  Val update_by_buckets(std::vector<Val> gradients, Val loss) {
    const int64_t bytes = bucket_bytes(config_);
    Val gate;
    {
      Builder::Within phase(b_, Phase::backward);
      Builder::Within scope(b_, "grad_norm");
      gate = gate_of(scalars_, loss, {}, config_);
    }
    const auto update = [&](const std::vector<size_t>& numbers) {
      const std::vector<Val> weights = tensors_at(weights_, numbers);
      apply_optimizer(b_, optimizer_, tensors_at(owned_, numbers), tensors_at(gradients, numbers),
                      scalars_, gate, weights);
      gather_weights(b_, weights, update_, bytes);
    };
    const auto take = [&](const SummedBucket& bucket) {
      for (size_t k = 0; k < bucket.sums.size(); ++k) {
        gradients[bucket.numbers[k]] = bucket.sums[k];
      }
      update(bucket.numbers);
    };
    BucketSums sums(b_, update_);
    for (const std::vector<size_t>& numbers : buckets_of(weights_, bytes)) {
      if (const auto done = sums.add({numbers, tensors_at(gradients, numbers)})) take(*done);
    }
    while (const auto done = sums.next()) take(*done);
    return finish(gradients, loss, gate);
  }
  // Of a micro-batch by itself.
  void move_own_statistics() {
    const bool in_pair = *config_.overlap_micro_batches;
    if (!in_pair && recorded_.moved.empty()) return;
    Builder::Within phase(b_, Phase::backward);
    const Val gate = clip_norm_gate(scalars_, recorded_.loss, {});
    if (in_pair) b_.output("gate", gate);  // the second's is shut with it
    move_statistics(b_, recorded_.moved, gate);
  }
  // Returns the gate, which is made here where there is none yet.
  Val finish(const std::vector<Val>& gradients, Val loss, Val gate = {}) {
    Builder::Within phase(b_, Phase::backward);
    Builder::Within scope(b_, "grad_norm");
    std::vector<Val> partials;
    if (update_.has_pieces()) {
      partials = squares_of_pieces(gradients, weights_, update_);
    } else {
      for (Val g : gradients) partials.push_back(sum_of_squares(g));
    }
    if (!gate) gate = gate_of(scalars_, loss, partials, config_);
    b_.output("gate", gate);
    b_.output("grad_norm",
              config_.clip_norm->has_value() ? gate : clip_norm_gate(scalars_, {}, partials));
    return gate;
  }

  Builder& b_;
  const TrainConfig& config_;
  const MicroBatch kind_;
  const Update update_;
  const Val scalars_;
  OptimizerSpec optimizer_;
  const Recorded recorded_;
  std::vector<Val> weights_;  // whole
  std::vector<Val> owned_;    // what this rank updates: pieces, where weights are divided
  std::vector<std::string> names_;
};

}  // namespace

Program record_step(const std::function<Recorded(Builder&, Val scalars)>& forward,
                    const TrainConfig& config, MicroBatch kind, int64_t ranks, int64_t per_node) {
  Builder b;
  if (*config.precision == "bf16") b.read_weights_as(DType::bf16, cast);
  Val scalars = step_scalars(b.input(kScalarsInput, scalars_spec(), Space::host));
  Recorded recorded = forward(b, scalars);
  for (auto& [name, value] : recorded.outputs) b.output(name, value);
  StepRecorder(b, config, kind, Update(config, ranks, per_node), scalars, std::move(recorded))
      .record();
  return in_batch_parts(b.take(), *config.batch_parts);
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
  return record_step(forward, config.train, kind, config.ranks, config.per_node);
}

std::optional<BatchParts> batch_parts_of(const Task& task, const Config& config,
                                         std::pair<int64_t, int64_t> bucket) {
  if (*config.train.batch_parts == 1) return std::nullopt;
  Config whole = config;
  whole.train.batch_parts = int64_t(1);
  BatchParts done;
  in_batch_parts(record_plan_step(task, whole, bucket), *config.train.batch_parts, &done);
  return done;
}

Program record_plan_step(const Task& task, const Config& config,
                         std::pair<int64_t, int64_t> bucket) {
  return record_bucket_step(task, config, bucket, update_of(config).last());
}

}  // namespace pal
