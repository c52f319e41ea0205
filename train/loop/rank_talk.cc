// Short messages of fixed size.
#include "train/loop/rank_talk.h"

#include <algorithm>
#include <functional>
#include <sstream>

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

std::string RankTalk::of_first(const std::function<std::string()>& find) const {
  std::vector<std::string> found{writes() ? find() : ""};
  dealt().complete(found);
  return found[0];
}

bool RankTalk::of_first(const std::function<bool()>& find) const { return any(writes() && find()); }

namespace {

constexpr size_t kLongest = 100;  // characters of what differs that are said

// A line of a configuration or the like, without its comment.
std::string bare(std::string line) {
  line = line.substr(0, line.find("  #"));
  const size_t begin = line.find_first_not_of(' '), end = line.find_last_not_of(' ');
  return begin == std::string::npos ? "nothing" : one_line(line.substr(begin, end + 1 - begin));
}

// The first line in which the texts of rank 0 and of another differ.
std::string first_difference(const std::string& first, const std::string& other, size_t rank) {
  std::istringstream a(first), b(other);
  std::string of_first, of_other;
  do {
    if (!std::getline(a, of_first)) of_first.clear();
    if (!std::getline(b, of_other)) of_other.clear();
  } while (of_first == of_other && (a || b));
  of_first = bare(of_first), of_other = bare(of_other);
  if (of_first.size() + of_other.size() > kLongest) return "";
  return " (" + of_first + "; rank " + std::to_string(rank) + ": " + of_other + ")";
}

}  // namespace

void RankTalk::require_alike(const std::vector<std::pair<std::string, std::string>>& facts) const {
  if (!group_) return;
  for (const auto& [name, text] : facts) {
    const std::vector<size_t> all = share_among(*group_, std::hash<std::string>()(text));
    std::vector<std::string> others;
    size_t other = 0;
    for (size_t q = all.size(); q-- > 1;) {
      if (all[q] != all[0]) others.insert(others.begin(), std::to_string(q)), other = q;
    }
    if (others.empty()) continue;
    std::vector<std::string> texts(all.size());
    texts[size_t(rank())] = text;
    dealt().complete(texts);
    throw UsageError("ranks: rank 0 and rank " + comma_list(others) + " differ in " + name +
                     first_difference(texts[0], texts[other], other) + "; all need the same");
  }
}

}  // namespace pal
