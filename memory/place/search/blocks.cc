// Joining of buffers into blocks, bottom up.
#include "memory/place/search/blocks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pal {
namespace {

using BlockSet = std::vector<int32_t>;

// Every choice of k of the members, and its size; none where there are too many.
std::vector<std::pair<int64_t, BlockSet>> choices(const BlockSet& members, size_t k, auto size_of) {
  std::vector<std::pair<int64_t, BlockSet>> out;
  double count = 1;
  for (size_t i = 0; i < k; ++i) count *= double(members.size() - i) / double(i + 1);
  if (members.size() < k || count > 2000) return out;
  BlockSet chosen;
  auto extend = [&](auto& self, size_t from, int64_t size) -> void {
    if (chosen.size() == k) {
      out.push_back({size, chosen});
      return;
    }
    for (size_t i = from; i < members.size(); ++i) {
      chosen.push_back(members[i]);
      self(self, i + 1, size + size_of(members[i]));
      chosen.pop_back();
    }
  };
  extend(extend, 0, 0);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Blocks::Blocks(std::span<const Buffer> buffers, int most, std::mt19937_64& random)
    : leaves_(buffers.size()) {
  for (const Buffer& b : buffers) blocks_.push_back({b, {}, {}, false});
  for (int count = 2; count <= most;) count = join_round(count, random) ? 2 : count + 1;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].joined) continue;
    top_.push_back(blocks_[i].b);
    top_block_.push_back(int32_t(i));
  }
}

// All joins of exactly `count` blocks that do not exclude each other; short ones first, since a
// short block has the fewest partners. Whether there was one.
bool Blocks::join_round(int count, std::mt19937_64& random) {
  std::map<std::pair<int64_t, int64_t>, BlockSet> by_lower;  // (lower, upper) -> blocks
  std::map<int64_t, std::vector<int64_t>> uppers_of;         // lower -> uppers
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].joined) continue;
    BlockSet& same = by_lower[{blocks_[i].b.lower, blocks_[i].b.upper}];
    if (same.empty()) uppers_of[blocks_[i].b.lower].push_back(blocks_[i].b.upper);
    same.push_back(int32_t(i));
  }
  struct Join {
    int64_t duration;
    uint64_t chance;
    BlockSet left, right;
  };
  std::vector<Join> joins;
  auto size_of = [&](int32_t i) { return blocks_[size_t(i)].b.size; };
  for (const auto& [time, left] : by_lower) {
    const auto next = uppers_of.find(time.second);
    if (next == uppers_of.end()) continue;
    for (size_t k = 1; k < size_t(count); ++k) {
      const auto lefts = choices(left, k, size_of);
      if (lefts.empty()) continue;
      for (int64_t upper : next->second) {
        const BlockSet& right = by_lower[{time.second, upper}];
        for (auto& [size, set] : choices(right, size_t(count) - k, size_of)) {
          auto at =
              std::lower_bound(lefts.begin(), lefts.end(), std::pair<int64_t, BlockSet>{size, {}});
          for (; at != lefts.end() && at->first == size; ++at)
            joins.push_back({upper - time.first, random(), at->second, set});
        }
      }
    }
  }
  std::sort(joins.begin(), joins.end(), [](const Join& a, const Join& b) {
    return a.duration != b.duration ? a.duration < b.duration : a.chance < b.chance;
  });
  bool any = false;
  for (Join& j : joins) {
    auto free = [&](int32_t i) { return !blocks_[size_t(i)].joined; };
    if (!std::all_of(j.left.begin(), j.left.end(), free) ||
        !std::all_of(j.right.begin(), j.right.end(), free))
      continue;
    Buffer b{blocks_[size_t(j.left[0])].b.lower, blocks_[size_t(j.right[0])].b.upper, 0};
    for (int32_t i : j.left) b.size += size_of(i), blocks_[size_t(i)].joined = true;
    for (int32_t i : j.right) blocks_[size_t(i)].joined = true;
    blocks_.push_back({b, std::move(j.left), std::move(j.right), false});
    any = true;
  }
  return any;
}

std::vector<int64_t> Blocks::offsets(std::span<const int64_t> of_top) const {
  std::vector<int64_t> at(blocks_.size(), 0);
  for (size_t i = 0; i < top_block_.size(); ++i) at[size_t(top_block_[i])] = of_top[i];
  for (size_t i = blocks_.size(); i-- > leaves_;) {  // a block comes after its parts
    for (const auto* stack : {&blocks_[i].left, &blocks_[i].right}) {
      int64_t next = at[i];
      for (int32_t part : *stack) at[size_t(part)] = next, next += blocks_[size_t(part)].b.size;
    }
  }
  at.resize(leaves_);
  return at;
}

}  // namespace pal
