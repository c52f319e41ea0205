// Sums along a binary tree, with a binary counter: after i micro-batches there is a sum for every
// bit of i, of as many as the bit counts. So aligned pairs are added, then pairs of pairs, and a
// block of a power of two has one sum: which rank adds what does not matter.
#include "train/loop/micro_batch.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "train/config/wording.h"

namespace pal {

std::string to_string(MicroBatch kind) {
  static constexpr const char* names[] = {"only", "first", "middle", "last"};
  for (size_t i = 0; i < std::size(kMicroBatches); ++i) {
    if (kind == kMicroBatches[i]) return names[i];
  }
  if (!kind.updates()) return "carry" + std::to_string(kind.stores);
  std::string out = "last+";
  for (uint32_t bit = kind.adds; bit != 0; bit /= 2) out += bit % 2 ? '1' : '0';
  return out;
}

int64_t micro_batches(const TrainConfig& config, int64_t ranks) {
  return config.accumulate->value_or(ranks);
}

bool is_ordered(const TrainConfig& config, int64_t ranks) {
  return config.reduction->value_or(ranks > 1 ? "ordered" : "library") == "ordered";
}

Update::Update(const TrainConfig& config, int64_t ranks, int64_t per_node)
    : micro_batches_(pal::micro_batches(config, ranks)),
      ranks_(ranks),
      per_node_(per_node),
      ordered_(pal::is_ordered(config, ranks)),
      shard_(*config.shard),
      norms_(*config.batch_norm),
      travels_(*config.exchange == "bf16" ? DType::bf16 : DType::f32) {
  if (micro_batches_ % ranks_ != 0) throw ProgramError("[update] a rank has part of a micro-batch");
}

MicroBatch Update::kind(int64_t i) const {
  const bool last = i + 1 == per_rank();
  if (!ordered_) {
    if (per_rank() == 1) return MicroBatch::only;
    return i == 0 ? MicroBatch::first : last ? MicroBatch::last : MicroBatch::middle;
  }
  if (last) return {.adds = uint32_t(i), .folds = i == 0};
  const int carries = std::countr_one(uint64_t(i));
  return {.adds = (1u << carries) - 1, .stores = int8_t(carries), .folds = carries == 0};
}

std::vector<MicroBatch> Update::kinds() const {
  std::vector<MicroBatch> out;
  // A carry is first met at the number before a power of two.
  const auto add = [&](int64_t i) {
    const MicroBatch each = kind(i);
    if (std::find(out.begin(), out.end(), each) == out.end()) out.push_back(each);
  };
  add(0);
  if (!ordered_ && per_rank() > 2) add(1);
  for (int64_t i = 1; ordered_ && i < per_rank(); i = 2 * i + 1) add(i);
  add(per_rank() - 1);
  return out;
}

int Update::accumulators() const {
  if (!ordered_) return per_rank() > 1 ? 1 : 0;
  return std::bit_width(uint64_t(per_rank() - 1));
}

std::vector<int64_t> possible_ranks(int64_t micro_batches, bool ordered) {
  std::vector<int64_t> out;
  for (int64_t n = 1; n <= micro_batches; ++n) {
    if (micro_batches % n != 0) continue;
    if (n == 1 || !ordered || std::has_single_bit(uint64_t(micro_batches / n))) out.push_back(n);
  }
  return out;
}

void check_ranks(const TrainConfig& config, int64_t ranks) {
  const int64_t n = micro_batches(config, ranks);
  const bool ordered = is_ordered(config, ranks);
  const std::vector<int64_t> possible = possible_ranks(n, ordered);
  if (std::find(possible.begin(), possible.end(), ranks) != possible.end()) return;
  std::vector<std::string> words;
  for (const int64_t each : possible) words.push_back(std::to_string(each));
  throw UsageError(
      "train.accumulate: the " + std::to_string(n) +
      " micro-batches of an update cannot be divided among " + std::to_string(ranks) + " ranks" +
      (ordered ? " (train.reduction: ordered gives each a power of two of them)" : "") +
      "; start " + comma_list(words) + " ranks, or set train.accumulate to " +
      std::to_string(ranks) + " or " + std::to_string(2 * ranks));
}

}  // namespace pal
