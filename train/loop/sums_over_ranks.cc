// Buckets, and what becomes of them.
#include "train/loop/sums_over_ranks.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "ops/exchange/exchange.h"
#include "ops/norms/norm_over_ranks.h"
#include "ops/sums/square_tiles.h"
#include "ops/tensors/state_rows.h"
#include "ops/tensors/views.h"
#include "train/loop/bucket_sums.h"

namespace pal {
int64_t bucket_bytes(const TrainConfig& config) {
  constexpr int64_t kAuto = int64_t(25) << 20;
  return *config.bucket == "auto" ? kAuto : parse_size(*config.bucket).bytes;
}

std::vector<std::vector<size_t>> buckets_of(const std::vector<Val>& tensors, int64_t most) {
  std::vector<std::vector<size_t>> out;
  int64_t bytes = most;
  for (size_t i = tensors.size(); i-- > 0;) {
    const int64_t own = tensors[i].spec().bytes();
    if (bytes + own > most) out.emplace_back(), bytes = 0;
    out.back().push_back(i), bytes += own;
  }
  return out;
}

std::vector<Val> tensors_at(const std::vector<Val>& tensors, const std::vector<size_t>& numbers) {
  std::vector<Val> out;
  for (const size_t i : numbers) out.push_back(tensors[i]);
  return out;
}

std::string exchanges_of(const Program& program) {
  std::string out;
  for (const Node& node : program.nodes) {
    if (!node.op->collective) continue;
    out += std::string(node.op->name) + "(" + node.attrs.print() + ")";
    for (ValueId v : present(node.in)) out += " " + to_string(program.value(v).spec);
    out += "; ";
  }
  return out;
}

Val sum_over_ranks(Val loss, const Update& update) {
  if (update.ranks() == 1) return loss;
  Builder::Within scope(*loss.builder, "exchange");
  return pairwise_sum(all_gather({loss}, {Shape{update.ranks(), 1}}, update.ranks())[0]);
}

std::vector<Val> sum_over_ranks(Builder& b, const std::vector<Val>& gradients, const Update& update,
                                int64_t bucket_bytes) {
  if (update.ranks() == 1) return gradients;
  std::vector<Val> out(gradients.size());
  const auto take = [&](const SummedBucket& bucket) {
    for (size_t k = 0; k < bucket.sums.size(); ++k) out[bucket.numbers[k]] = bucket.sums[k];
  };
  BucketSums sums(b, update);
  for (const std::vector<size_t>& numbers : buckets_of(gradients, bucket_bytes)) {
    if (const auto done = sums.add({numbers, tensors_at(gradients, numbers)})) take(*done);
  }
  while (const auto done = sums.next()) take(*done);
  return out;
}

std::vector<Val> squares_of_pieces(const std::vector<Val>& pieces, const std::vector<Val>& wholes,
                                   const Update& update) {
  std::vector<Val> tiles, out;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < pieces.size(); ++i) {
    tiles.push_back(square_tiles(pieces[i]));
    shapes.push_back({(wholes[i].shape().numel() + kTile - 1) / kTile});
  }
  for (Val all : all_gather(tiles, std::move(shapes), update.ranks())) {
    out.push_back(sum_tiles(all));
  }
  return out;
}

void gather_weights(Builder& b, const std::vector<Val>& weights, const Update& update,
                    int64_t bucket_bytes) {
  Builder::Within scope(b, "exchange");
  for (const std::vector<size_t>& numbers : buckets_of(weights, bucket_bytes)) {
    std::vector<Val> newest;
    for (const size_t i : numbers) {
      const auto& slots = b.program().state;
      newest.push_back({&b, std::find_if(slots.begin(), slots.end(), [&](const StateSlot& s) {
                              return s.start == weights[i].id;
                            })->end});
    }
    gather_state(newest, update.ranks());
  }
}

KeptStatistics::KeptStatistics(Builder& b, const Update& update, MicroBatch kind,
                               const std::vector<MovedStatistic>& moved, Val scalars)
    : b_(b), moved_(moved) {
  const int64_t rows = update.per_rank();
  Builder::Within phase(b, Phase::backward);
  for (size_t i = 0; i < moved.size(); ++i) {
    const TensorSpec& spec = moved[i].batch.spec();
    const Node in_scope{.scope = b.program().value(moved[i].batch.id).scope};
    Builder::Within where(b, in_scope, Phase::backward);
    if (rows == 1) {
      rows_.push_back(reshape(moved[i].batch, spec.shape.with_front(1)));
      continue;
    }
    const Val slot = b.state(std::string(kAccumulator) + "statistic/" + std::to_string(i),
                             {spec.shape.with_front(rows), spec.dtype}, Role::weight_gradient);
    rows_.push_back(put_row(slot, moved[i].batch, scalars));
  }
  if (update.syncs_norms()) require_same_on_ranks();
  if (update.ranks() == 1 || update.syncs_norms() || !kind.updates() || rows_.empty()) return;
  Builder::Within scope(b, "exchange");
  std::vector<Shape> wholes;
  for (Val each : rows_) {
    wholes.push_back(each.shape());
    wholes.back()[0] *= update.ranks();
  }
  rows_ = all_gather(rows_, std::move(wholes), update.ranks());
}

void KeptStatistics::require_same_on_ranks() const {
  const Program& p = b_.program();
  for (const MovedStatistic& each : moved_) {
    const NodeId producer = p.value(each.batch.id).producer;
    if (producer != kNone && p.node(producer).op == &moments_over_ranks_op) continue;
    throw ProgramError("[ranks] a running statistic at " + p.scopes[p.value(each.batch.id).scope] +
                       " is moved by what is no statistic of all ranks");
  }
}

void KeptStatistics::move(Val gate) const {
  for (size_t i = 0; i < moved_.size(); ++i) {
    const Node in_scope{.scope = b_.program().value(moved_[i].batch.id).scope};
    Builder::Within where(b_, in_scope, Phase::update);
    moving_averages(moved_[i].running, rows_[i], moved_[i].momentum, gate);
  }
}

}  // namespace pal
