// Tables by segment and slots, and the way back through them.
#include "memory/front/chain.h"

#include <algorithm>
#include <cmath>

namespace pal {
namespace {

constexpr float kNoWay = std::numeric_limits<float>::infinity();
constexpr int kBacklogs = 48;  // the most that may wait for the link, in slots

bool has_link(const Chain& chain) {
  return std::any_of(chain.blocks.begin(), chain.blocks.end(),
                     [](const ChainBlock& block) { return block.carried > 0; });
}

// What is done with a segment's first blocks, and what it takes.
struct Way {
  int variant = -1, until = -1;  // keep, or pass
  bool kept_leaves = false, border_leaves = false;
  int next = 0;    // the block that follows
  int need = 0;    // free slots, at least
  int taken = 0;   // slots that what follows has not
  int leaves = 0;  // slots of the backlog that are added
  double ms = 0;
};

class ChainTables {
 public:
  ChainTables(const Chain& chain, int slots)
      : chain_(chain), blocks_(chain.blocks), count_(int(blocks_.size())) {
    int64_t peak = chain.base, kept = 0, border = 0;
    least_ = std::numeric_limits<int64_t>::max();
    carried_.push_back(0);
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
      carried_.push_back(carried_.back() + block.carried);
    }
    const int64_t most = kept + peak;
    // A border that is forgotten makes room for as much.
    least_ = std::min(least_, chain.base) - border;
    slot_ = std::max<int64_t>(1, (most - least_ + slots - 1) / slots);
    slots_ = int((most - least_ + slot_ - 1) / slot_) + 1;
    nothing_.assign(size_t(slots_), 0);
    fill_again();
  }

  // The tables of the forward pass, with what may leave or without.
  void fill_first(bool copies) {
    copies_ = copies, backlogs_ = copies ? kBacklogs : 1;
    first_.assign(size_t(count_), {});
    for (int s = count_; s-- > 0;) first_[size_t(s)] = row(s, count_ - 1, chain_.base, true);
  }

  // Free slots for a whole budget, and back.
  int slots() const { return slots_; }
  int64_t bytes_of(int m) const { return least_ + m * slot_; }
  int slot_of(int64_t bytes) const { return need(bytes); }
  float ms(int m) const { return first_[0].ms[size_t(m)]; }

  ChainPlan plan(int m) const {
    ChainPlan plan;
    follow(plan, 0, count_ - 1, m, 0, true);
    count_chain(chain_, plan);
    return plan;
  }

 private:
  struct Row {
    std::vector<Way> ways;
    std::vector<float> ms;  // by backlog and free slots beside it
    std::vector<int> way;
  };

  // Slots that so many bytes of a peak need, and that so many kept ones take.
  int need(int64_t peak) const {
    return int(std::max<int64_t>(0, (peak - least_ + slot_ / 2) / slot_));
  }
  int take(int64_t bytes) const { return int((bytes + slot_ / 2) / slot_); }
  int64_t border_before(int s) const { return s > 0 ? blocks_[size_t(s - 1)].border : 0; }

  const Row& segment(int s, int t) const { return again_[size_t(s) * size_t(count_) + size_t(t)]; }
  const Row& follows(int s, int t, bool first) const {
    return first ? first_[size_t(s)] : segment(s, t);
  }
  // What waits for the link behind what a way does with blocks from s on.
  int backlog_after(int backlog, int s, const Way& way) const {
    const auto before = [&](int block) { return (carried_[size_t(block)] + slot_ / 2) / slot_; };
    const int64_t carried = before(way.next) - before(s);  // a fast link's are more than an int's
    return int(std::max<int64_t>(0, backlog + way.leaves - carried));
  }

  void fill_again() {
    again_.resize(size_t(count_) * size_t(count_));
    for (int length = 1; length <= count_; ++length) {
      for (int s = 0; s + length <= count_; ++s) {
        const int t = s + length - 1;
        again_[size_t(s) * size_t(count_) + size_t(t)] = row(s, t, blocks_[size_t(t)].base, false);
      }
    }
  }

  // `base`: what is alive beside the chain while it runs again.
  std::vector<Way> ways(int s, int t, int64_t base, bool first) const {
    std::vector<Way> out;
    const ChainBlock& block = blocks_[size_t(s)];
    for (size_t v = 0; v < block.variants.size(); ++v) {
      const ChainVariant& variant = block.variants[v];
      const int next = s + variant.length;
      if (next > t + 1) continue;
      const int freed = variant.reads_border ? 0 : take(border_before(s));
      const int64_t kept = variant.kept + (next <= t ? blocks_[size_t(next - 1)].border : 0);
      const Way way{
          .variant = int(v),
          .next = next,
          .need = std::max(need(base + variant.forward_peak), need(variant.backward_peak) - freed),
          .taken = take(kept) - freed,
          .ms = variant.again_ms + (first ? 0 : variant.forward_ms)};
      out.push_back(way);
      if (!first || !copies_ || next > t) continue;
      Way without = way;
      without.kept_leaves = true, without.leaves = take(variant.to_copy);
      without.taken = take(kept - variant.may_leave) - freed;
      if (variant.may_leave > 0) out.push_back(without);
      if (!variant.reads_border) continue;
      add_without_border(s, way, out);
      if (variant.may_leave > 0) add_without_border(s, without, out);
    }
    Way pass;
    for (int until = s + 1; until <= t; ++until) {
      const ChainBlock& passed = blocks_[size_t(until - 1)];
      const int64_t read = until - 1 > s ? border_before(until - 1) : 0;
      pass.until = pass.next = until;
      pass.need = std::max(pass.need, need(base + passed.pass_peak + read));
      pass.taken = take(passed.border);
      pass.ms += first ? 0 : passed.pass_ms;
      out.push_back(pass);
      if (first && copies_) add_without_border(s, pass, out);
    }
    return out;
  }
  // The same while the border that the first block reads is on the host.
  void add_without_border(int s, Way way, std::vector<Way>& out) const {
    if (border_before(s) == 0) return;
    way.border_leaves = true, way.leaves += take(blocks_[size_t(s - 1)].border_to_copy);
    way.taken -= take(border_before(s));
    out.push_back(way);
  }

  // All budgets of one segment.
  Row row(int s, int t, int64_t base, bool first) const {
    const int backlogs = first ? backlogs_ : 1;
    Row out{.ways = ways(s, t, base, first),
            .ms = std::vector<float>(size_t(backlogs * slots_), kNoWay),
            .way = std::vector<int>(size_t(backlogs * slots_), -1)};
    for (size_t w = 0; w < out.ways.size(); ++w) {
      for (int backlog = 0; backlog < backlogs; ++backlog) offer(out, int(w), s, t, backlog, first);
    }
    return out;
  }
  void offer(Row& out, int number, int s, int t, int backlog, bool first) const {
    const Way& way = out.ways[size_t(number)];
    const float *rest = nothing_.data(), *before = nothing_.data();
    if (way.next <= t) {
      const int left = first ? backlog_after(backlog, s, way) : 0;
      if (left >= (first ? backlogs_ : 1)) return;
      rest = follows(way.next, t, first).ms.data() + size_t(left) * size_t(slots_);
    }
    if (way.until >= 0) before = segment(s, way.until - 1).ms.data();
    float* const ms = out.ms.data() + size_t(backlog) * size_t(slots_);
    int* const which = out.way.data() + size_t(backlog) * size_t(slots_);
    const int from = std::max({way.need + backlog, way.taken, 0});
    if (from >= slots_) return;
    // What is freed was taken before: no more slots are free than there are.
    const int all = std::min(slots_, slots_ + way.taken);
    const int taken = way.taken;
    const double own = way.ms;
#pragma omp simd
    for (int m = from; m < all; ++m) {
      const auto other = float(own + double(rest[m - taken]) + double(before[m - backlog]));
      const bool better = other < ms[m];
      ms[m] = better ? other : ms[m];
      which[m] = better ? number : which[m];
    }
  }

  int follow(ChainPlan& plan, int s, int t, int m, int backlog, bool first) const {
    const int at = int(plan.steps.size());
    plan.steps.emplace_back();
    const Row& row = follows(s, t, first);
    const Way& way = row.ways[size_t(row.way[size_t(backlog * slots_ + m)])];
    ChainStep step{
        .first = s, .last = t, .kept_leaves = way.kept_leaves, .border_leaves = way.border_leaves};
    if (way.next <= t) {
      const int left = first ? backlog_after(backlog, s, way) : 0;
      step.rest = follow(plan, way.next, t, m - way.taken, left, first);
    }
    if (way.until >= 0) {
      step.kind = ChainStep::Kind::pass, step.until = way.until;
      step.before = follow(plan, s, way.until - 1, m - backlog, 0, false);
    } else {
      step.variant = way.variant;
    }
    plan.steps[size_t(at)] = step;
    return at;
  }

  const Chain& chain_;
  const std::vector<ChainBlock>& blocks_;
  const int count_;
  int64_t least_ = 0, slot_ = 1;
  int slots_ = 0, backlogs_ = 1;
  bool copies_ = false;
  std::vector<int64_t> carried_;  // by the link before each block
  std::vector<float> nothing_;    // that follows
  std::vector<Row> again_;        // by first and last block
  std::vector<Row> first_;        // by first block: to the chain's end, in the forward pass
};

// Walks a plan with the bytes that are held outside.
class ChainWalk {
 public:
  ChainWalk(const Chain& chain, ChainPlan& plan) : chain_(chain), plan_(plan) {}

  void run() {
    plan_.bytes = 0, plan_.added_ms = 0, plan_.copied = 0;
    visit(0, 0, 0, true);
  }

 private:
  void reach(int64_t bytes) { plan_.bytes = std::max(plan_.bytes, bytes); }

  // What `rest` begins with, which follows blocks first..next-1.
  struct Away {
    int64_t bytes = 0, backlog = 0;
  };
  Away leave(const ChainStep& step, int next, int64_t backlog) {
    Away away{.backlog = backlog};
    if (step.border_leaves) {
      const ChainBlock& before = chain_.blocks[size_t(step.first - 1)];
      away.bytes += before.border, away.backlog += before.border_to_copy;
    }
    if (step.kept_leaves) {
      const ChainVariant& v = chain_.blocks[size_t(step.first)].variants[size_t(step.variant)];
      away.bytes += v.may_leave, away.backlog += v.to_copy;
    }
    for (int k = step.first; k < next; ++k) away.backlog -= chain_.blocks[size_t(k)].carried;
    away.backlog = std::max<int64_t>(0, away.backlog);
    plan_.copied += away.bytes;
    return away;
  }

  // `backlog`: of the forward pass; what runs again has it among `held`.
  void visit(int at, int64_t held, int64_t backlog, bool first) {
    const ChainStep& step = plan_.steps[size_t(at)];
    const int64_t base = first ? chain_.base : chain_.blocks[size_t(step.last)].base;
    if (step.kind == ChainStep::Kind::pass) {
      for (int k = step.first; k < step.until; ++k) {
        const ChainBlock& block = chain_.blocks[size_t(k)];
        // The first block's border is held already.
        const int64_t read = k > step.first ? chain_.blocks[size_t(k - 1)].border : 0;
        reach(held + backlog + base + block.pass_peak + read);
        if (!first) plan_.added_ms += block.pass_ms;
      }
      const Away away = first ? leave(step, step.until, backlog) : Away{};
      const int64_t border = chain_.blocks[size_t(step.until - 1)].border;
      visit(step.rest, held + border - away.bytes, away.backlog, first);
      visit(step.before, held + backlog, 0, false);
      return;
    }
    const ChainBlock& block = chain_.blocks[size_t(step.first)];
    const ChainVariant& variant = block.variants[size_t(step.variant)];
    reach(held + backlog + base + variant.forward_peak);
    if (!first) plan_.added_ms += variant.forward_ms;
    if (step.first > 0 && !variant.reads_border) {
      held -= chain_.blocks[size_t(step.first - 1)].border;
    }
    if (step.rest >= 0) {
      const int next = step.first + variant.length;
      const Away away = first ? leave(step, next, backlog) : Away{};
      const int64_t border = chain_.blocks[size_t(next - 1)].border;
      visit(step.rest, held + variant.kept + border - away.bytes, away.backlog, first);
    }
    reach(held + backlog + variant.backward_peak);
    plan_.added_ms += variant.again_ms;
  }

  const Chain& chain_;
  ChainPlan& plan_;
};

// The best for up to `most` budgets.
void add_plans(const ChainTables& tables, int most, std::vector<ChainPlan>& plans) {
  int low = 0;
  while (low < tables.slots() && tables.ms(low) == kNoWay) ++low;
  if (low == tables.slots()) return;
  // The first slot from which more bytes win nothing.
  int high = tables.slots() - 1;
  while (high > low && tables.ms(high - 1) == tables.ms(high)) --high;
  const double ratio =
      double(tables.bytes_of(high)) / double(std::max<int64_t>(1, tables.bytes_of(low)));
  float last = kNoWay;
  for (int i = 0; i < most; ++i) {
    const double part = most == 1 ? 1 : double(i) / (most - 1);
    const double bytes = double(tables.bytes_of(low)) * std::pow(ratio, part);
    const int m = std::clamp(tables.slot_of(std::llround(bytes)), low, high);
    if (tables.ms(m) >= last) continue;
    last = tables.ms(m);
    // The fewest slots that give the same time.
    int least = m;
    while (least > low && tables.ms(least - 1) == last) --least;
    plans.push_back(tables.plan(least));
  }
}

}  // namespace

void count_chain(const Chain& chain, ChainPlan& plan) { ChainWalk(chain, plan).run(); }

std::vector<ChainPlan> plan_chain(const Chain& chain, int most, int slots) {
  std::vector<ChainPlan> plans;
  if (chain.blocks.empty() || most <= 0) return plans;
  ChainTables tables(chain, slots);
  tables.fill_first(false);
  add_plans(tables, most, plans);
  if (has_link(chain)) {
    tables.fill_first(true);
    add_plans(tables, most, plans);
  }
  return plans;
}

}  // namespace pal
