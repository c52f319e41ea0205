// Blocks grow only where there is room to spare.
#include "memory/place/join.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numbers>
#include <tuple>

#include "memory/place/buffers/load.h"

namespace pal {
namespace {

// The bytes alive at every moment: a tree whose nodes hold the most below them, of what was added
// there or below.
class Load {
 public:
  explicit Load(size_t moments)
      : leaves_(std::bit_ceil(moments)), most_(2 * leaves_), added_(2 * leaves_) {}

  void add(int64_t from, int64_t to, int64_t bytes) {
    if (from < to) add(1, 0, int64_t(leaves_), from, to, bytes);
  }
  // Of [from, to), which is not empty.
  int64_t most(int64_t from, int64_t to) const { return most(1, 0, int64_t(leaves_), from, to); }

 private:
  void add(size_t node, int64_t begin, int64_t end, int64_t from, int64_t to, int64_t bytes) {
    if (from <= begin && end <= to) {
      most_[node] += bytes, added_[node] += bytes;
      return;
    }
    const int64_t middle = (begin + end) / 2;
    if (from < middle) add(2 * node, begin, middle, from, to, bytes);
    if (to > middle) add(2 * node + 1, middle, end, from, to, bytes);
    most_[node] = added_[node] + std::max(most_[2 * node], most_[2 * node + 1]);
  }
  int64_t most(size_t node, int64_t begin, int64_t end, int64_t from, int64_t to) const {
    if (from <= begin && end <= to) return most_[node];
    const int64_t middle = (begin + end) / 2;
    int64_t below = 0;
    if (from < middle) below = most(2 * node, begin, middle, from, to);
    if (to > middle) below = std::max(below, most(2 * node + 1, middle, end, from, to));
    return added_[node] + below;
  }

  size_t leaves_;
  std::vector<int64_t> most_, added_;
};

class Joiner {
 public:
  Joiner(std::span<const Buffer> buffers, int64_t grid, int64_t most)
      : grid_(grid), most_(most), buffers_(with_ranks(buffers)), load_(2 * buffers.size()) {
    for (const Buffer& b : buffers_) load_.add(b.lower, b.upper, b.size);
    out_.block.assign(buffers.size(), -1);
    out_.inside.assign(buffers.size(), 0);
  }

  JoinedBuffers run() {
    stack();
    chain();
    return std::move(out_);
  }

 private:
  bool has_room(int64_t from, int64_t to, int64_t bytes) const {
    return from >= to || load_.most(from, to) + bytes <= most_;
  }

  // Side by side: each upon the first of a few blocks of its cell of the grid that takes it.
  void stack() {
    constexpr size_t kFew = 5;
    std::vector<int32_t> order = not_empty(buffers_);
    const auto key = [&](int32_t i) {
      const Buffer& b = buffers_[i];
      return std::tuple(b.lower / grid_, b.upper / grid_, b.size, i);
    };
    std::sort(order.begin(), order.end(), [&](int32_t i, int32_t j) { return key(i) < key(j); });
    size_t first = 0;  // block of this cell
    for (size_t k = 0; k < order.size(); ++k) {
      const Buffer& b = buffers_[order[k]];
      if (k > 0) {
        const Buffer& before = buffers_[order[k - 1]];
        if (before.lower / grid_ != b.lower / grid_ || before.upper / grid_ != b.upper / grid_)
          first = out_.blocks.size();
      }
      size_t at = first;
      const size_t last = std::min(out_.blocks.size(), first + kFew);
      while (at < last && !stack_upon(out_.blocks[at], b)) ++at;
      if (at == last) {
        at = out_.blocks.size();
        out_.blocks.push_back({b.lower, b.upper, 0});
      }
      out_.block[order[k]] = int32_t(at);
      out_.inside[order[k]] = out_.blocks[at].size;
      out_.blocks[at].size += b.size;
    }
  }

  // Whether the block can hold another for as long as either lives; if so, it does, but for its
  // size.
  bool stack_upon(Buffer& block, const Buffer& b) {
    const int64_t lower = std::min(block.lower, b.lower), begun = std::max(block.lower, b.lower);
    const int64_t ended = std::min(block.upper, b.upper), upper = std::max(block.upper, b.upper);
    const int64_t before = block.lower > b.lower ? block.size : b.size;
    const int64_t after = block.upper < b.upper ? block.size : b.size;
    if (!has_room(lower, std::min(begun, ended), before) ||
        !has_room(std::max(begun, ended), upper, after) ||
        !has_room(ended, begun, before + after)) {
      return false;
    }
    load_.add(lower, begun, before);
    load_.add(ended, upper, after);
    block.lower = lower, block.upper = upper;
    return true;
  }

  // One after another: each after the one of its size that ended last, of the last few.
  void chain() {
    constexpr size_t kFew = 32;
    std::vector<int32_t> order(out_.blocks.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int32_t(i);
    std::sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
      const Buffer &a = out_.blocks[i], &b = out_.blocks[j];
      return a.lower != b.lower ? a.lower < b.lower : i < j;
    });
    std::vector<Buffer> chains;
    std::vector<int32_t> chain_of(out_.blocks.size());
    std::map<int64_t, std::vector<int32_t>> of_size;  // the one used last is at the end
    for (int32_t i : order) {
      const Buffer& b = out_.blocks[i];
      std::vector<int32_t>& same = of_size[b.size];
      auto best = same.end();
      const auto few = same.end() - std::min<std::ptrdiff_t>(std::ssize(same), kFew);
      for (auto it = same.end(); it != few;) {
        --it;
        const int64_t end = chains[*it].upper;
        if (end > b.lower || b.lower - end > grid_) continue;
        if (best != same.end() && end <= chains[*best].upper) continue;
        if (has_room(end, b.lower, b.size)) best = it;
      }
      if (best == same.end()) {
        chains.push_back(b);
        best = same.insert(same.end(), int32_t(chains.size()) - 1);
      } else {
        Buffer& held = chains[*best];
        load_.add(held.upper, b.lower, b.size);
        held.upper = b.upper;
      }
      chain_of[i] = *best;
      std::rotate(best, best + 1, same.end());
    }
    for (int32_t& block : out_.block) {
      if (block >= 0) block = chain_of[block];
    }
    out_.blocks = std::move(chains);
  }

  int64_t grid_, most_;
  std::vector<Buffer> buffers_;
  Load load_;
  JoinedBuffers out_;
};

}  // namespace

std::vector<int64_t> JoinedBuffers::offsets(std::span<const int64_t> of_blocks) const {
  std::vector<int64_t> out(block.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = block[i] < 0 ? 0 : of_blocks[block[i]] + inside[i];
  return out;
}

JoinedBuffers join_buffers(std::span<const Buffer> buffers, int64_t grid, int64_t most) {
  return Joiner(buffers, grid, most).run();
}

// On coarser grids than the last, until there are few enough blocks.
bool CoarserProblems::join_to(std::span<const Buffer> from, size_t blocks, JoinedBuffers& out) {
  constexpr int kFutile = 5;
  size_t before = 0;
  double coarser = std::numbers::sqrt2;
  for (int futile = 0; futile < kFutile;) {
    coarser = std::max(coarser, double(before) / double(blocks));
    grid_ = std::max(grid_ + 1, std::round(grid_ * coarser));
    if (grid_ > double(from.size())) return false;
    out = join_buffers(from, int64_t(grid_), most_);
    work_ += 1 + std::ssize(from) / 8;
    if (out.blocks.size() <= blocks) return true;
    const bool is_futile = before > 0 && double(out.blocks.size()) > 0.9 * double(before);
    futile += is_futile;
    coarser = is_futile ? 4 : std::numbers::sqrt2;
    before = out.blocks.size();
  }
  return false;
}

bool CoarserProblems::join_finely(size_t blocks) {
  constexpr size_t kFine = 14'000;
  begun_ = true;
  if (!join_to(buffers_, kFine, fine_)) return false;
  grid_ = std::max(1.0, double(fine_.blocks.size()) / double(blocks));
  return true;
}

bool CoarserProblems::next(size_t blocks) {
  if (!begun_ && !join_finely(blocks)) return false;
  const std::vector<Buffer> last = std::move(joined_.blocks);
  JoinedBuffers coarse;
  do {
    if (!join_to(fine_.blocks, blocks, coarse)) return false;
  } while (coarse.blocks == last);
  joined_ = fine_;
  for (size_t i = 0; i < joined_.block.size(); ++i) {
    int32_t& block = joined_.block[i];
    if (block < 0) continue;
    joined_.inside[i] += coarse.inside[block];
    block = coarse.block[block];
  }
  joined_.blocks = std::move(coarse.blocks);
  return true;
}

}  // namespace pal
