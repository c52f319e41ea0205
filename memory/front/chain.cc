// Tables by segment and slots, and the way back through them.
#include "memory/front/chain.h"

#include <algorithm>
#include <cmath>

namespace pal {
namespace {

constexpr float kNoWay = std::numeric_limits<float>::infinity();

// What a table's cell says: a variant (from 0), or where the segment is split.
struct Cell {
  float ms = kNoWay;
  int16_t variant = -1, until = -1;

  void offer(double other, int by_variant, int by_split) {
    if (float(other) < ms) *this = {float(other), int16_t(by_variant), int16_t(by_split)};
  }
};

class ChainTables {
 public:
  ChainTables(const Chain& chain, int slots)
      : chain_(chain), blocks_(chain.blocks), count_(int(blocks_.size())) {
    int64_t peak = chain.base, kept = 0, border = 0;
    least_ = std::numeric_limits<int64_t>::max();
    for (const ChainBlock& block : blocks_) {
      int64_t own = 0;
      for (const ChainVariant& v : block.variants) {
        peak = std::max({peak, v.backward_peak, chain.base + v.forward_peak});
        least_ = std::min(least_, v.backward_peak);
        own = std::max(own, (v.kept + v.length - 1) / v.length);
      }
      kept += own + block.border;
      border = std::max(border, block.border);
      peak = std::max({peak, chain.base + block.pass_peak, block.base});
    }
    const int64_t most = kept + peak;
    // A border that is forgotten makes room for as much.
    least_ = std::min(least_, chain.base) - border;
    slot_ = std::max<int64_t>(1, (most - least_ + slots - 1) / slots);
    slots_ = int((most - least_ + slot_ - 1) / slot_) + 1;
    fill();
  }

  // Free slots for a whole budget, and back.
  int slots() const { return slots_; }
  int64_t bytes_of(int m) const { return least_ + m * slot_; }
  int slot_of(int64_t bytes) const { return need(bytes); }
  const Cell& whole(int m) const { return first_[size_t(0)][size_t(m)]; }

  ChainPlan plan(int m) const {
    ChainPlan plan;
    follow(plan, 0, count_ - 1, m, true);
    count_chain(chain_, plan);
    return plan;
  }

 private:
  using Row = std::vector<Cell>;

  // Slots that so many bytes of a peak need, and that so many kept ones take.
  int need(int64_t peak) const {
    return int(std::max<int64_t>(0, (peak - least_ + slot_ / 2) / slot_));
  }
  int take(int64_t bytes) const { return int((bytes + slot_ / 2) / slot_); }
  int after(int m, int taken) const { return std::min(m - taken, slots_ - 1); }
  static int64_t forgotten(const Chain& chain, int s, const ChainVariant& v) {
    return s > 0 && !v.reads_border ? chain.blocks[size_t(s - 1)].border : 0;
  }

  const Row& segment(int s, int t) const { return again_[size_t(s) * size_t(count_) + size_t(t)]; }

  void fill() {
    again_.resize(size_t(count_) * size_t(count_));
    for (int length = 1; length <= count_; ++length) {
      for (int s = 0; s + length <= count_; ++s) {
        again_[size_t(s) * size_t(count_) + size_t(s + length - 1)] =
            row(s, s + length - 1, blocks_[size_t(s + length - 1)].base, false);
      }
    }
    first_.resize(size_t(count_));
    for (int s = count_; s-- > 0;) first_[size_t(s)] = row(s, count_ - 1, chain_.base, true);
  }

  // All budgets of one segment. `base`: what is alive beside the chain while it runs again.
  Row row(int s, int t, int64_t base, bool first) const {
    Row out(static_cast<size_t>(slots_));
    const ChainBlock& block = blocks_[size_t(s)];
    const auto rest = [&](int from) -> const Row& {
      return first ? first_[size_t(from)] : segment(from, t);
    };
    for (size_t v = 0; v < block.variants.size(); ++v) {
      const ChainVariant& variant = block.variants[v];
      const int end = s + variant.length - 1;
      if (end > t) continue;
      const int least = need(base + variant.forward_peak);
      const int back = need(variant.backward_peak);
      const int freed = take(forgotten(chain_, s, variant));
      const int taken = take(variant.kept + (end < t ? blocks_[size_t(end)].border : 0)) - freed;
      const double ms = variant.again_ms + (first ? 0 : variant.forward_ms);
      for (int m = std::max({least, back - freed, 0}); m < slots_; ++m) {
        const int left = after(m, taken);
        if (left < 0) continue;
        const double more = end < t ? double(rest(end + 1)[size_t(left)].ms) : 0;
        out[size_t(m)].offer(ms + more, int(v), -1);
      }
    }
    int pass_need = 0;
    double pass = 0;
    for (int until = s + 1; until <= t; ++until) {
      const ChainBlock& passed = blocks_[size_t(until - 1)];
      const int64_t read = until - 1 > s ? blocks_[size_t(until - 2)].border : 0;
      pass_need = std::max(pass_need, need(base + passed.pass_peak + read));
      pass += first ? 0 : passed.pass_ms;
      const int taken = take(passed.border);
      const Row &later = rest(until), &before = segment(s, until - 1);
      for (int m = std::max(pass_need, taken); m < slots_; ++m) {
        out[size_t(m)].offer(pass + later[size_t(m - taken)].ms + before[size_t(m)].ms, -1, until);
      }
    }
    return out;
  }

  int follow(ChainPlan& plan, int s, int t, int m, bool first) const {
    const int at = int(plan.steps.size());
    plan.steps.push_back({.first = s, .last = t});
    const Cell& cell = (first ? first_[size_t(s)] : segment(s, t))[size_t(m)];
    ChainStep step = plan.steps.back();
    if (cell.variant >= 0) {
      const ChainVariant& variant = blocks_[size_t(s)].variants[size_t(cell.variant)];
      step.variant = cell.variant;
      const int end = s + variant.length - 1;
      const int taken = take(variant.kept + (end < t ? blocks_[size_t(end)].border : 0)) -
                        take(forgotten(chain_, s, variant));
      if (end < t) step.rest = follow(plan, end + 1, t, after(m, taken), first);
    } else {
      step.kind = ChainStep::Kind::pass, step.until = cell.until;
      const int taken = take(blocks_[size_t(cell.until - 1)].border);
      step.rest = follow(plan, cell.until, t, m - taken, first);
      step.before = follow(plan, s, cell.until - 1, m, false);
    }
    plan.steps[size_t(at)] = step;
    return at;
  }

  const Chain& chain_;
  const std::vector<ChainBlock>& blocks_;
  const int count_;
  int64_t least_ = 0, slot_ = 1;
  int slots_ = 0;
  std::vector<Row> again_;  // by first and last block
  std::vector<Row> first_;  // by first block: to the chain's end, in the forward pass
};

// Walks a plan with the bytes that are held outside.
class ChainWalk {
 public:
  ChainWalk(const Chain& chain, ChainPlan& plan) : chain_(chain), plan_(plan) {}

  void run() {
    plan_.bytes = 0, plan_.added_ms = 0;
    visit(0, 0, true);
  }

 private:
  void reach(int64_t bytes) { plan_.bytes = std::max(plan_.bytes, bytes); }

  void visit(int at, int64_t held, bool first) {
    const ChainStep& step = plan_.steps[size_t(at)];
    const int64_t base = first ? chain_.base : chain_.blocks[size_t(step.last)].base;
    if (step.kind == ChainStep::Kind::pass) {
      for (int k = step.first; k < step.until; ++k) {
        const ChainBlock& block = chain_.blocks[size_t(k)];
        // The first block's border is held already.
        const int64_t read = k > step.first ? chain_.blocks[size_t(k - 1)].border : 0;
        reach(held + base + block.pass_peak + read);
        if (!first) plan_.added_ms += block.pass_ms;
      }
      visit(step.rest, held + chain_.blocks[size_t(step.until - 1)].border, first);
      visit(step.before, held, false);
      return;
    }
    const ChainBlock& block = chain_.blocks[size_t(step.first)];
    const ChainVariant& variant = block.variants[size_t(step.variant)];
    reach(held + base + variant.forward_peak);
    if (!first) plan_.added_ms += variant.forward_ms;
    if (step.first > 0 && !variant.reads_border) {
      held -= chain_.blocks[size_t(step.first - 1)].border;
    }
    const int64_t border = chain_.blocks[size_t(step.first + variant.length - 1)].border;
    if (step.rest >= 0) visit(step.rest, held + variant.kept + border, first);
    reach(held + variant.backward_peak);
    plan_.added_ms += variant.again_ms;
  }

  const Chain& chain_;
  ChainPlan& plan_;
};

}  // namespace

void count_chain(const Chain& chain, ChainPlan& plan) { ChainWalk(chain, plan).run(); }

std::vector<ChainPlan> plan_chain(const Chain& chain, int most, int slots) {
  std::vector<ChainPlan> plans;
  if (chain.blocks.empty() || most <= 0) return plans;
  const ChainTables tables(chain, slots);
  int low = 0;
  while (low < tables.slots() && tables.whole(low).ms == kNoWay) ++low;
  if (low == tables.slots()) return plans;
  // The first slot from which more bytes win nothing.
  int high = tables.slots() - 1;
  while (high > low && tables.whole(high - 1).ms == tables.whole(high).ms) --high;
  const double ratio =
      double(tables.bytes_of(high)) / double(std::max<int64_t>(1, tables.bytes_of(low)));
  float last = kNoWay;
  for (int i = 0; i < most; ++i) {
    const double part = most == 1 ? 1 : double(i) / (most - 1);
    const double bytes = double(tables.bytes_of(low)) * std::pow(ratio, part);
    const int m = std::clamp(tables.slot_of(std::llround(bytes)), low, high);
    if (tables.whole(m).ms >= last) continue;
    last = tables.whole(m).ms;
    // The fewest slots that give the same time.
    int least = m;
    while (least > low && tables.whole(least - 1).ms == last) --least;
    plans.push_back(tables.plan(least));
  }
  return plans;
}

}  // namespace pal
