// Short messages of fixed size.
#include "train/loop/rank_talk.h"

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "train/config/wording.h"

namespace pal {

BatchShare RankTalk::share(const Update& update) const {
  return {rank() * update.per_rank(), update.per_rank(), update.micro_batches()};
}

RankTalk::Counts RankTalk::count(const std::vector<BatchInfo>& own) const {
  std::vector<Counts> counts;
  for (const BatchInfo& batch : own) {
    counts.push_back({batch.normalizer, batch.samples, batch.tokens});
  }
  if (group_) {
    std::vector<Counts> all(counts.size() * size_t(group_->size()));
    group_->share(counts.data(), all.data(), int64_t(counts.size() * sizeof(Counts)));
    counts = std::move(all);
  }
  Counts sum;
  for (const Counts& each : counts) {
    sum.normalizer += each.normalizer;
    sum.samples += each.samples, sum.tokens += each.tokens;
  }
  return sum;
}

std::vector<int> RankTalk::who(bool own) const {
  const std::vector<char> all =
      group_ ? share_among(*group_, char(own)) : std::vector<char>{char(own)};
  std::vector<int> out;
  for (size_t q = 0; q < all.size(); ++q) {
    if (all[q]) out.push_back(int(q));
  }
  return out;
}

std::string RankTalk::of_first(const std::string& text) const {
  if (!group_) return text;
  const auto bytes = share_among(*group_, int64_t(text.size()))[0];
  std::string mine(text, 0, size_t(bytes));
  mine.resize(size_t(bytes));
  std::string all(size_t(bytes * group_->size()), 0);
  if (bytes > 0) group_->share(mine.data(), all.data(), bytes);
  return all.substr(0, size_t(bytes));
}

void RankTalk::require_alike(const std::vector<std::pair<std::string, std::string>>& facts) const {
  if (!group_) return;
  for (const auto& [name, text] : facts) {
    const std::vector<size_t> all = share_among(*group_, std::hash<std::string>()(text));
    std::vector<std::string> others;
    for (size_t q = 1; q < all.size(); ++q) {
      if (all[q] != all[0]) others.push_back(std::to_string(q));
    }
    if (others.empty()) continue;
    throw UsageError("ranks: rank 0 and rank " + comma_list(others) + " differ in " + name +
                     "; all need the same");
  }
}

}  // namespace pal
