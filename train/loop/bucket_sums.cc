// The exchanges of buckets, by turns.
#include "train/loop/bucket_sums.h"

#include <utility>

#include "ops/exchange/exchange.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

std::vector<Val> as_type(std::vector<Val> values, DType type) {
  for (Val& value : values) value = cast(value, type);
  return values;
}

std::vector<Shape> shapes_of(const std::vector<Val>& values) {
  std::vector<Shape> out;
  for (Val value : values) out.push_back(value.shape());
  return out;
}

std::vector<Val> sums_of(const std::vector<Val>& rows) {
  std::vector<Val> out;
  for (Val each : rows) out.push_back(pairwise_sum(each));
  return out;
}

// What a rank has of the sums of a bucket: its pieces, or by levels the sums of its machine of all
// pieces of the ranks like it.
std::vector<Val> first_sums(const std::vector<Val>& bucket, const Update& update) {
  if (!update.is_ordered()) return reduce_scatter(bucket, update.ranks());
  const std::vector<Val> sent = as_type(bucket, update.travels_as());
  if (!update.sums_by_levels()) return sums_of(all_to_all(sent, update.ranks()));
  return sums_of(all_to_all_inside(sent, update.ranks(), update.per_node()));
}
// This rank's pieces of them.
std::vector<Val> summed_pieces(std::vector<Val> first, const std::vector<Val>& bucket,
                               const Update& update) {
  if (!update.sums_by_levels()) return first;
  return sums_of(all_to_all_between(as_type(std::move(first), update.travels_as()),
                                    shapes_of(bucket), update.ranks(), update.per_node()));
}

std::vector<Val> gathered(const std::vector<Val>& pieces, const std::vector<Val>& bucket,
                          const Update& update) {
  return as_type(
      all_gather(as_type(pieces, update.travels_as()), shapes_of(bucket), update.ranks()),
      DType::f32);
}

}  // namespace

std::optional<SummedBucket> BucketSums::add(const SummedBucket& bucket) {
  Builder::Within phase(b_, Phase::backward);
  Builder::Within scope(b_, "exchange");
  if (!update_.is_ordered() && !update_.has_pieces()) {
    return with_role(
        {bucket.numbers, all_reduce(as_type(bucket.sums, update_.travels_as()), update_.ranks())});
  }
  return go_on(UnderWay{bucket, first_sums(bucket.sums, update_)});
}

std::optional<SummedBucket> BucketSums::next() {
  Builder::Within phase(b_, Phase::backward);
  Builder::Within scope(b_, "exchange");
  while (summed_ || to_gather_) {
    if (auto done = go_on({})) return done;
  }
  return {};
}

std::optional<SummedBucket> BucketSums::go_on(std::optional<UnderWay> next) {
  std::optional<SummedBucket> done;
  const auto gather = [&](const UnderWay& each) {
    done = with_role({each.own.numbers, gathered(each.sums, each.own.sums, update_)});
  };
  if (to_gather_) gather(*std::exchange(to_gather_, {}));
  std::optional<UnderWay> last = std::exchange(summed_, std::move(next));
  if (!last) return done;
  last->sums = summed_pieces(std::move(last->sums), last->own.sums, update_);
  if (update_.has_pieces()) {
    done = with_role({last->own.numbers, last->sums});
  } else if (update_.sums_by_levels()) {
    to_gather_ = std::move(last);
  } else {
    gather(*last);
  }
  return done;
}

SummedBucket BucketSums::with_role(SummedBucket bucket) {
  for (Val sum : bucket.sums) b_.program().value(sum.id).role = Role::weight_gradient;
  return bucket;
}

}  // namespace pal
