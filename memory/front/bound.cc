// Marks, rows, and column generation over them.
#include "memory/front/bound.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "memory/linear/best_prices.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/passes/parts.h"
#include "memory/swap/trips.h"

namespace pal {
namespace {

// Marks are the largest of so many runs of the chain, by two counts.
constexpr size_t kRuns = 8;
// Without a link a budget is at most so many times the step dear: no more is asked of a bound.
constexpr double kMostPrice = 100;
// What prices lead to is as good as the best prices could be.
constexpr double kClose = 2e-4;
// Cuts for a budget: as many as this many nodes allow, within limits.
constexpr size_t kCutNodes = 40'000;
constexpr int kFewestCuts = 4, kMostCuts = 40;
// Sums of doubles are off by less, as a part of their largest terms.
constexpr double kRounding = 1e-12;

Program with_own_origins(Program program) {
  for (ValueId v : program.values.ids()) program.value(v).origin = v;
  return program;
}

}  // namespace

Bound::Bound(const Program& recorded, const StateLayout& layout, const CompileOptions& options,
             const DeviceProfile& device, const BoundOptions& what)
    : step_(options.fuse_epilogues ? fuse_first(recorded) : recorded),
      parts_(with_own_origins(what.any_order ? split_parts(step_) : step_)),
      times_(least_times(step_, parts_, options, device, what.bits)),
      graph_(parts_, layout, times_, what),
      link_(link_bytes_per_ms(device)) {
  for (const double ms : times_.once) least_ms_ += ms;
  const auto& sure = link_ > 0 ? graph_.touched() : graph_.fixed();
  for (const int64_t bytes : sure) least_bytes_ = std::max(least_bytes_, bytes);
  choose_marks();
  add_rows();
  if (rows_.empty()) return;
  cutter_.emplace(graph_, marks_);
  prices_.assign(rows_.size(), 0);
  known_.push_back(cutter_->cut(std::vector<double>(marks_.size(), 0), 1));
}

void Bound::choose_marks() {
  std::vector<Mark> firm;
  for (Mark i = 0; i < Mark(graph_.chain().size()); ++i) {
    if (graph_.is_firm(i)) firm.push_back(i);
  }
  for (size_t run = 0; run < kRuns; ++run) {
    const auto begin = firm.begin() + std::ptrdiff_t(run * firm.size() / kRuns);
    const auto end = firm.begin() + std::ptrdiff_t((run + 1) * firm.size() / kRuns);
    if (begin == end) continue;
    for (const auto* bytes : {&graph_.kept(), &graph_.fixed()}) {
      marks_.push_back(*std::max_element(
          begin, end, [&](Mark a, Mark b) { return (*bytes)[size_t(a)] < (*bytes)[size_t(b)]; }));
    }
  }
  std::sort(marks_.begin(), marks_.end());
  marks_.erase(std::unique(marks_.begin(), marks_.end()), marks_.end());
}

void Bound::add_rows() {
  for (size_t k = 0; k < marks_.size(); ++k) {
    if (link_ <= 0) {
      rows_.push_back({k, 1, 0});
      continue;
    }
    // Copies out end before the mark, copies in begin after it.
    double before = 0, after = times_.once[graph_.chain()[size_t(marks_[k])]];
    for (NodeId n : parts_.nodes.ids()) {
      if (graph_.after(n) <= marks_[k]) before += times_.once[n];
      if (graph_.before(n) >= marks_[k]) after += times_.once[n];
    }
    rows_.push_back({k, 1 / link_, std::max(before, after)});
    rows_.push_back({k, 2 / link_, 0});
  }
}

std::vector<double> Bound::gains(const BoundCut& answer, int64_t bytes) const {
  std::vector<double> gain;
  const double time = least_ms_ + answer.again_ms;
  for (const Row& row : rows_) {
    const double over =
        double(graph_.fixed()[size_t(marks_[row.mark])] - bytes) + answer.needed[row.mark];
    gain.push_back(link_ > 0 ? (row.begin + over * row.rate - time) / least_ms_
                             : over / double(bytes));
  }
  return gain;
}

double Bound::price(const std::vector<double>& z, int64_t bytes) {
  std::vector<double> prices(marks_.size(), 0);
  double weight = 1, begin = 0;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    prices[row.mark] += z[r] * row.rate;
    if (link_ > 0) weight -= z[r], begin += z[r] * row.begin;
  }
  weight = std::max(weight, 0.0);
  BoundCut cut = cutter_->cut(prices, weight);
  double fixed = 0;
  for (size_t k = 0; k < marks_.size(); ++k) {
    fixed += prices[k] * double(graph_.fixed()[size_t(marks_[k])]);
  }
  const double whole = weight * least_ms_ + begin + fixed + cut.least;
  const Line line{whole - kRounding * whole,
                  std::accumulate(prices.begin(), prices.end(), 0.0) * (1 + kRounding)};
  known_.push_back(std::move(cut));
  lines_.push_back(line);
  return line.at_zero - line.slope * double(bytes);
}

void Bound::sharpen(int64_t bytes, int cuts) {
  if (rows_.empty() || bytes < least_bytes_ || bytes <= 0 || least_ms_ <= 0) return;
  // Prices z are parts of the least time for a budget; with a link, parts of the whole.
  const double unit = link_ > 0 ? 1 : least_ms_ / double(bytes);
  const auto in_units = [&](std::vector<double> z) {
    for (double& x : z) x *= unit;
    if (link_ <= 0) return z;
    const double sum = std::accumulate(z.begin(), z.end(), 0.0);
    if (sum > 1) {
      for (double& x : z) x /= sum;
    }
    return z;
  };
  double best = ms(bytes);
  for (int i = 0; i < cuts; ++i) {
    KnownAnswers known;
    for (const BoundCut& each : known_) {
      known.time.push_back(1 + each.again_ms / least_ms_);
      known.gain.push_back(gains(each, bytes));
    }
    const BestPrices next = best_prices(known, link_ > 0 ? 1 : kMostPrice, link_ > 0);
    if (best >= next.value * least_ms_ * (1 - kClose)) break;
    std::vector<double> z = in_units(next.z);
    // Between those that were best and those that would be: the latter swing.
    if (i % 2 == 1) {
      for (size_t r = 0; r < z.size(); ++r) z[r] = (z[r] + prices_[r]) / 2;
    }
    const double value = price(z, bytes);
    if (value > best) best = value, prices_ = z;
  }
}

double Bound::ms(int64_t bytes) const {
  if (bytes < least_bytes_) return std::numeric_limits<double>::infinity();
  double best = least_ms_;
  for (const Line& line : lines_) {
    best = std::max(best, line.at_zero - line.slope * double(bytes));
  }
  return best;
}

Bounds bounds_of(const Program& recorded, const StateLayout& layout, const CompileOptions& options,
                 const DeviceProfile& device, const std::vector<int64_t>& budgets) {
  Bound bound(recorded, layout, options, device);
  const int cuts = std::clamp(int(kCutNodes / (recorded.nodes.size() + 1)), kFewestCuts, kMostCuts);
  // From the largest on: its prices are where the next begins.
  for (size_t i = budgets.size(); i-- > 0;) bound.sharpen(budgets[i], cuts);
  Bounds out{.least_bytes = bound.least_bytes()};
  for (const int64_t budget : budgets) out.ms.push_back(bound.ms(budget));
  return out;
}

}  // namespace pal
