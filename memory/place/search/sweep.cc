// Exchanges at one border after the other.
#include "memory/place/search/sweep.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <unordered_set>

#include "memory/place/buffers/load.h"

namespace pal {
namespace {

BufferSet first_bits(size_t count) {
  return count == kMostInSet ? ~BufferSet{0} : (BufferSet{1} << count) - 1;
}

}  // namespace

ColumnSweep::ColumnSweep(std::span<const Buffer> buffers, bool backwards)
    : buffers_(buffers.begin(), buffers.end()) {
  if (backwards) {
    for (Buffer& b : buffers_) b = {-b.upper, -b.lower, b.size};
  }
  // Where something ends, but at the very end, something begins.
  const size_t columns = times_of(buffers_).size() - 1;
  borders_.resize(columns);
  states_.resize(columns);
  const std::vector<Buffer> ranked = with_ranks(buffers_);
  for (size_t i = 0; i < ranked.size(); ++i) {
    const size_t lower = size_t(ranked[i].lower), upper = size_t(ranked[i].upper);
    (lower == 0 ? first_ : borders_[lower].in).push_back(Leaf(i));
    if (upper < columns) borders_[upper].out.push_back(Leaf(i));
    std::mt19937_64 kind(uint64_t(upper) << 40 ^ uint64_t(buffers_[i].size) * 0x9e3779b97f4a7c15u);
    kind_.push_back(kind());
  }
  log_factorial_.assign(buffers.size() + 3, 0);
  for (size_t i = 1; i < log_factorial_.size(); ++i)
    log_factorial_[i] = log_factorial_[i - 1] + std::log(double(i));
  marked_.assign(buffers.size(), 0);
  for (Border& border : borders_) prepare(border);
}

// Sorts what ends and what begins, and finds what may be exchanged. What ends may stand at
// different places, so of that none is like another.
void ColumnSweep::prepare(Border& border) {
  std::vector<int64_t> sizes[2];
  std::vector<char> alike;
  for (const bool in : {false, true}) {
    std::vector<Leaf>& of = in ? border.in : border.out;
    if (of.size() > kMostInSet) {
      able_ = false;
      return;
    }
    std::sort(of.begin(), of.end(), [&](Leaf a, Leaf b) {
      const Buffer &x = buffers_[a], &y = buffers_[b];
      return x.size != y.size ? x.size > y.size : kind_[a] < kind_[b];
    });
    for (size_t i = 0; i < of.size(); ++i) {
      sizes[in].push_back(buffers_[of[i]].size);
      if (in) alike.push_back(i > 0 && kind_[of[i]] == kind_[of[i - 1]]);
    }
  }
  border.exchanges = find_exchanges(sizes[0], sizes[1], alike);
}

void ColumnSweep::list(const std::vector<Leaf>& of, BufferSet set, std::vector<Leaf>& out) {
  out.clear();
  for (; set; set &= set - 1) out.push_back(of[std::countr_zero(set)]);
}

// Ways to change some buffers of the column, among them the one for which there are fewest. Unions
// of two exchanges leave orders that neither does by itself; some of them are drawn by chance.
void ColumnSweep::list_options(const Border& border, BufferSet out, BufferSet in) {
  std::array<int, kMostInSet> ways{};
  std::vector<Exchange>& fitting = fitting_;
  fitting.clear();
  for (const Exchange& e : border.exchanges) {
    if ((e.out & ~out) || (e.in & ~in)) continue;
    fitting.push_back(e);
    for (BufferSet set = e.out; set; set &= set - 1) ++ways[std::countr_zero(set)];
  }
  size_t pivot = size_t(std::countr_zero(out));
  for (BufferSet set = out; set; set &= set - 1) {
    const size_t i = size_t(std::countr_zero(set));
    if (ways[i] < ways[pivot]) pivot = i;
  }
  const auto others = std::partition(fitting.begin(), fitting.end(),
                                     [&](const Exchange& e) { return e.out >> pivot & 1; });
  options_.assign(fitting.begin(), others);
  const size_t first = options_.size(), pairs = first * (fitting.size() - first);
  const bool draw = pairs > unions_;
  for (size_t k = 0; k < std::min(pairs, unions_); ++k) {
    const size_t pair = draw ? random_() % pairs : k;
    const Exchange &e = fitting[pair % first], &f = fitting[first + pair / first];
    if ((e.out & f.out) == 0 && (e.in & f.in) == 0)
      options_.push_back({e.out | f.out, e.in | f.in});
  }
  std::erase_if(options_, [&](const Exchange& e) { return e.out == out && e.in == in; });
  options_.push_back({out, in});
}

void ColumnSweep::Bucket::keep_best(size_t width) {
  std::sort(states.begin(), states.end(), [](const State& a, const State& b) {
    return a.score != b.score ? a.score > b.score : a.hash < b.hash;
  });
  std::unordered_set<uint64_t> seen;
  size_t kept = 0;
  for (size_t i = 0; i < states.size() && kept < width; ++i) {
    if (!seen.insert(states[i].hash).second) continue;
    if (kept != i) states[kept] = std::move(states[i]);
    ++kept;
  }
  states.resize(kept);
  if (kept == width) least = states.back().score;
}

// From columns before the border to those behind it; none when it is late.
std::vector<ColumnSweep::State> ColumnSweep::cross(size_t number, size_t width,
                                                   const SearchLimits& limits) {
  const Border& border = borders_[number];
  const size_t outs = border.out.size(), ins = border.in.size();
  std::vector<Bucket> buckets(outs + ins + 1);  // by number of buffers still to change
  buckets.back().states = states_[number - 1];
  for (State& s : buckets.back().states) s.out = first_bits(outs), s.in = first_bits(ins);
  PqTree tree;
  for (size_t rest = outs + ins; rest > 0; --rest) {
    buckets[rest].keep_best(width);
    for (const State& s : buckets[rest].states) {
      if (nodes_ >= limits.nodes || is_past(limits.deadline)) return {};
      list_options(border, s.out, s.in);
      nodes_ += int64_t(options_.size());
      for (const Exchange& e : options_) {
        list(border.out, e.out, going_);
        list(border.in, e.in, coming_);
        tree = s.tree;
        if (!tree.replace(going_, coming_, marked_)) continue;
        const BufferSet out = s.out & ~e.out, in = s.in & ~e.in;
        const size_t left = size_t(std::popcount(out)) + size_t(std::popcount(in));
        const int32_t leaves = s.leaves + int32_t(coming_.size()) - int32_t(going_.size());
        // How likely it is that an order drawn by chance would do.
        const double score = tree.log_orders(log_factorial_) - log_factorial_[leaves] +
                             noise_ * double(random_() >> 11) * 0x1p-53;
        Bucket& to = buckets[left];
        if (score <= to.least) continue;
        to.states.push_back(
            {tree, out, in, leaves, score,
             tree.hash(kind_) + out * 0x9e3779b97f4a7c15u + in * 0xbf58476d1ce4e5b9u,
             int32_t(origins_.size())});
        origins_.push_back({s.origin, number, e});
        if (to.states.size() >= 4 * width) to.keep_best(width);
      }
    }
    buckets[rest].states.clear();
  }
  buckets[0].keep_best(width);
  return std::move(buckets[0].states);
}

int64_t ColumnSweep::run(size_t width, uint64_t seed, const SearchLimits& limits) {
  random_.seed(seed);
  noise_ = 0.5 * double(seed % 4);
  unions_ = seed % 2 ? 100 : 0;
  nodes_ = 0;
  origins_.clear();
  states_.assign(borders_.size(), {});
  if (!able_) return 1;
  states_[0] = {{PqTree(first_), 0, 0, int32_t(first_.size()), 0, 0, -1}};
  for (size_t b = 1; b < borders_.size() && !states_[b - 1].empty(); ++b)
    states_[b] = cross(b, width, limits);
  return nodes_ + 1;
}

// Forwards once more along the origins, then backwards: each column as the one after it demands.
void ColumnSweep::settle(size_t column, const State& state, std::span<const Leaf> order,
                         std::vector<int64_t>& offset) {
  std::vector<std::vector<Exchange>> taken(borders_.size());
  for (int32_t o = state.origin; o >= 0; o = origins_[o].before)
    taken[origins_[o].border].push_back(origins_[o].exchange);
  std::vector<PqTree> columns{PqTree(first_)};  // what the border behind gathers is gathered
  for (size_t b = 1; b <= column; ++b) {
    PqTree next = columns.back();
    for (const Exchange& e : taken[b]) {
      list(borders_[b].out, e.out, going_);
      list(borders_[b].in, e.in, coming_);
      columns.back().gather(going_, marked_);
      next.replace(going_, coming_, marked_);
    }
    columns.push_back(std::move(next));
  }
  std::vector<int32_t> rank(buffers_.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = int32_t(i);
  for (size_t b = column + 1; b-- > 0;) {
    int64_t top = 0;
    int32_t place = 0;
    for (Leaf leaf : columns[b].order(rank)) {
      offset[leaf] = top;
      top += buffers_[leaf].size;
      rank[leaf] = place++;
    }
    for (const Exchange& e : taken[b]) {  // what gave way stands where its followers do
      list(borders_[b].out, e.out, going_);
      list(borders_[b].in, e.in, coming_);
      for (Leaf leaf : going_) rank[leaf] = rank[coming_[0]];
    }
  }
}

}  // namespace pal
