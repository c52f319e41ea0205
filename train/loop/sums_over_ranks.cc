// Buckets, and what becomes of them.
#include "train/loop/sums_over_ranks.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/exchange/exchange.h"
#include "ops/sums/square_tiles.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/state_rows.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

// Numbers of gradients, bucket by bucket: as they are made, so that a bucket is full early.
std::vector<std::vector<size_t>> buckets_of(const Program& p, const std::vector<Val>& gradients,
                                            int64_t most) {
  std::vector<size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return p.value(gradients[a].id).producer < p.value(gradients[b].id).producer;
  });
  std::vector<std::vector<size_t>> out;
  int64_t bytes = most;
  for (const size_t i : order) {
    const int64_t own = gradients[i].spec().bytes();
    if (bytes + own > most) out.emplace_back(), bytes = 0;
    out.back().push_back(i), bytes += own;
  }
  return out;
}

std::vector<Val> as_type(std::vector<Val> values, DType type) {
  for (Val& value : values) value = cast(value, type);
  return values;
}

std::vector<Val> summed(const std::vector<Val>& given, const Update& update) {
  const DType travels = update.travels_as();
  const std::vector<Val> bucket = as_type(given, travels);
  if (!update.is_ordered()) {
    return update.has_pieces() ? reduce_scatter(bucket, update.ranks())
                               : all_reduce(bucket, update.ranks());
  }
  std::vector<Val> pieces;
  for (Val rows : all_to_all(bucket, update.ranks())) pieces.push_back(tree_sum(rows));
  if (update.has_pieces()) return pieces;
  std::vector<Shape> wholes;
  for (Val g : bucket) wholes.push_back(g.shape());
  return as_type(all_gather(as_type(pieces, travels), std::move(wholes), update.ranks()),
                 DType::f32);
}

}  // namespace

int64_t bucket_bytes(const TrainConfig& config) {
  constexpr int64_t kAuto = int64_t(25) << 20;
  return *config.bucket == "auto" ? kAuto : parse_size(*config.bucket).bytes;
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
  return tree_sum(all_gather({loss}, {Shape{update.ranks(), 1}}, update.ranks())[0]);
}

std::vector<Val> sum_over_ranks(Builder& b, const std::vector<Val>& gradients, const Update& update,
                                int64_t bucket_bytes) {
  if (update.ranks() == 1) return gradients;
  Builder::Within phase(b, Phase::backward);
  Builder::Within scope(b, "exchange");
  std::vector<Val> out(gradients.size());
  for (const std::vector<size_t>& numbers : buckets_of(b.program(), gradients, bucket_bytes)) {
    std::vector<Val> bucket;
    for (const size_t i : numbers) bucket.push_back(gradients[i]);
    const std::vector<Val> sums = summed(bucket, update);
    for (size_t k = 0; k < numbers.size(); ++k) {
      out[numbers[k]] = sums[k];
      b.program().value(sums[k].id).role = Role::weight_gradient;
    }
  }
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
  std::vector<Val> bucket;
  int64_t bytes = 0;
  for (Val start : weights) {
    const auto slot = std::find_if(b.program().state.begin(), b.program().state.end(),
                                   [&](const StateSlot& s) { return s.start == start.id; });
    const int64_t own = start.spec().bytes();
    if (bytes + own > bucket_bytes && !bucket.empty()) {
      gather_state(std::exchange(bucket, {}), update.ranks()), bytes = 0;
    }
    bucket.push_back({&b, slot->end}), bytes += own;
  }
  gather_state(bucket, update.ranks());
}

KeptStatistics::KeptStatistics(Builder& b, const Update& update,
                               const std::vector<MovedStatistic>& moved, Val scalars)
    : b_(b), update_(update), moved_(moved) {
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
}

void KeptStatistics::move(Val gate) {
  if (rows_.empty()) return;
  std::vector<Val> all = rows_;
  if (update_.ranks() > 1) {
    Builder::Within phase(b_, Phase::backward);
    Builder::Within scope(b_, "exchange");
    std::vector<Shape> wholes;
    for (Val rows : rows_) {
      wholes.push_back(rows.shape());
      wholes.back()[0] *= update_.ranks();
    }
    all = all_gather(rows_, std::move(wholes), update_.ranks());
  }
  for (size_t i = 0; i < moved_.size(); ++i) {
    const Node in_scope{.scope = b_.program().value(moved_[i].batch.id).scope};
    Builder::Within where(b_, in_scope, Phase::update);
    moving_averages(moved_[i].running, all[i], moved_[i].momentum, gate);
  }
}

}  // namespace pal
