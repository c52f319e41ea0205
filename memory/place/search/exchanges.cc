// Equal sums of sets on two sides, by the number of buffers in both.
#include "memory/place/search/exchanges.h"

#include <algorithm>
#include <bit>

namespace pal {
namespace {

constexpr size_t kMostSets = 1 << 14;  // of one side and one number of buffers
constexpr size_t kMostExchanges = 2000;
constexpr size_t kMostWork = 20'000'000;  // to find exchanges of few for very many

struct Sum {
  int64_t bytes;
  BufferSet set;
};
bool by_bytes(const Sum& a, const Sum& b) { return a.bytes < b.bytes; }

// Sums of all sets of sizes[from, to).
std::vector<Sum> sums_of(const std::vector<int64_t>& sizes, size_t from, size_t to) {
  std::vector<Sum> sums{{0, 0}};
  for (size_t i = from; i < to; ++i) {
    for (size_t j = 0, end = sums.size(); j < end; ++j)
      sums.push_back({sums[j].bytes + sizes[i], sums[j].set | uint64_t{1} << i});
  }
  std::sort(sums.begin(), sums.end(), by_bytes);
  return sums;
}

// What ends, or begins, at a border: sums of sets of one buffer, of two, and on while there are not
// too many. Of buffers alike the first are taken, if `alike` says so.
class Side {
 public:
  Side(std::span<const int64_t> sizes, const std::vector<char>& alike)
      : sizes_(sizes.begin(), sizes.end()) {
    std::vector<Sum> level{{0, 0}};
    for (size_t r = 1; r <= sizes_.size() && level.size() < kMostSets; ++r) {
      std::vector<Sum> next;
      for (const Sum& s : level) {
        for (size_t i = size_t(std::bit_width(s.set)); i < sizes_.size(); ++i) {
          if (!alike.empty() && alike[i] && !(s.set >> (i - 1) & 1)) continue;
          next.push_back({s.bytes + sizes_[i], s.set | uint64_t{1} << i});
        }
      }
      level = next;
      std::sort(next.begin(), next.end(), by_bytes);
      levels_.push_back(std::move(next));
    }
  }

  const std::vector<std::vector<Sum>>& levels() const { return levels_; }
  bool is_whole() const { return levels_.size() == sizes_.size(); }

  // Sets of more buffers than levels() has, whose sizes sum to `bytes`: from sums of two halves.
  std::vector<uint64_t> large_sets(int64_t bytes) {
    std::vector<uint64_t> out;
    if (low_.empty()) {
      low_ = sums_of(sizes_, 0, sizes_.size() / 2);
      high_ = sums_of(sizes_, sizes_.size() / 2, sizes_.size());
    }
    size_t end = high_.size();
    for (const Sum& low : low_) {
      while (end > 0 && low.bytes + high_[end - 1].bytes > bytes) --end;
      for (size_t j = end; j > 0 && low.bytes + high_[j - 1].bytes == bytes; --j) {
        const uint64_t set = low.set | high_[j - 1].set;
        if (std::popcount(set) > int(levels_.size()) && out.size() < 16) out.push_back(set);
      }
    }
    return out;
  }
  // What one call costs; much where halves are large.
  size_t cost() const {
    return sizes_.size() > 28 ? SIZE_MAX : size_t{2} << (sizes_.size() + 1) / 2;
  }

 private:
  std::vector<int64_t> sizes_;
  std::vector<std::vector<Sum>> levels_;
  std::vector<Sum> low_, high_;
};

}  // namespace

std::vector<Exchange> find_exchanges(std::span<const int64_t> out, std::span<const int64_t> in,
                                     const std::vector<char>& alike) {
  std::vector<Side> sides{{out, {}}, {in, alike}};
  std::vector<Exchange> found;
  size_t looked = 0;
  auto add = [&](BufferSet going, BufferSet coming) {
    ++looked;
    const bool smaller = std::any_of(found.begin(), found.end(), [&](const Exchange& e) {
      return (e.out & ~going) == 0 && (e.in & ~coming) == 0;
    });
    if (!smaller) found.push_back({going, coming});
    return found.size() < kMostExchanges && looked < 100 * kMostExchanges;
  };
  const auto &outs = sides[0].levels(), &ins = sides[1].levels();
  for (size_t count = 2; count <= outs.size() + ins.size(); ++count) {
    const size_t least = count > ins.size() ? count - ins.size() : 1;
    for (size_t r = least; r < count && r <= outs.size(); ++r) {
      auto first = ins[count - r - 1].begin();
      const auto end = ins[count - r - 1].end();
      for (const Sum& going : outs[r - 1]) {
        while (first != end && first->bytes < going.bytes) ++first;
        for (auto coming = first; coming != end && coming->bytes == going.bytes; ++coming) {
          if (!add(going.set, coming->set)) return found;
        }
      }
    }
  }
  // Few for very many.
  for (const size_t few : {0, 1}) {
    Side& many = sides[1 - few];
    if (many.is_whole()) continue;
    size_t calls = kMostWork / many.cost();
    for (const std::vector<Sum>& level : sides[few].levels()) {
      for (size_t i = 0; i < level.size() && calls > 0; ++i, --calls) {
        for (BufferSet set : many.large_sets(level[i].bytes)) {
          if (!(few == 0 ? add(level[i].set, set) : add(set, level[i].set))) return found;
        }
      }
    }
  }
  return found;
}

}  // namespace pal
