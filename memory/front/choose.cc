// A walk down the grid, one up, and what lies between.
#include "memory/front/choose.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "memory/front/descent.h"
#include "memory/front/unbeaten.h"
#include "memory/pass.h"
#include "memory/passes/parts.h"
#include "memory/price/predict.h"
#include "memory/schedule/delay_forward.h"
#include "memory/schedule/early_updates.h"
#include "memory/storages/lifetimes.h"
#include "memory/swap/trips.h"

namespace pal {
namespace {

constexpr int kFrontLimits = 32;
// Windows that are renewed, in turn.
constexpr size_t kRenewed[] = {48, 24, 80, 12};
constexpr size_t kRenewedFirst = 2;  // the others where one of these pays
// For a size and such a window: counts of so many nodes in all.
constexpr int64_t kRenewedNodes = 4'000'000;
// Sizes that could not be reached, one after the other, after which a walk down ends.
constexpr size_t kUnreached = 4;
// What is renewed is worth it for this part of the time added, at least. Every so many sizes it is
// tried whether it is.
constexpr double kWorthRenewing = 0.002;
constexpr int kRenewedEvery = 2;
// Copies by queues wait where the sketch's do not. Choices for a link that is so much slower leave
// them room.
constexpr double kLinkInUse = 0.9;
// Groups that change together, at most: so many nodes are counted for all of them.
constexpr size_t kGroupNodes = 2'000'000, kFewestGroups = 100;
// Between two sizes another, where that costs most time: so many, and of so many nodes in all.
constexpr size_t kMostBetween = 16, kBetweenNodes = 16'000;
// Sizes at which a step of so many nodes begins anew; larger ones begin with what was above.
constexpr size_t kAnewNodes = 4000;

}  // namespace

Program before_clones(const Program& program, const CompileOptions& options) {
  Program out = program;
  if (options.schedule != Schedule::program) {
    const StorageOptions storages = storage_options(options);
    std::optional<Program> later = delay_forward(program);
    if (later && peak_bytes(*later, {}, storages) <= peak_bytes(program, {}, storages)) {
      out = std::move(*later);
    }
  }
  return split_parts(out);
}

namespace {

std::vector<NodeId> order_of(const Program& program, const CompileOptions& options) {
  if (options.schedule != Schedule::program) return early_updates_order(program);
  std::vector<NodeId> order(program.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

RecomputeOptions nothing_heavy(RecomputeOptions options) {
  options.heavy = std::numeric_limits<double>::infinity();
  return options;
}

// What is found for sizes, each from what was found for others.
class Sizes {
 public:
  struct Size {
    int64_t limit = 0;
    Fates fates = {};
    Sketch::Count count = {};
    bool pays = false;  // to renew
  };
  Sizes(Fates nothing, Descent& descent, size_t nodes)
      : nothing_(std::move(nothing)), descent_(descent), nodes_(nodes) {}

  const std::vector<Size>& all() const { return sizes_; }

  void down(const std::vector<int64_t>& limits) {
    size_t unreached = 0;
    for (const int64_t limit : limits) {
      const size_t k = sizes_.size();
      sizes_.push_back({.limit = limit});
      if (k == 0 || nodes_ <= kAnewNodes) lower(k, nothing_);
      if (k > 0) lower(k, sizes_[k - 1].fates);
      if (k == 0 || sizes_[k - 1].pays || k % kRenewedEvery == 0) renew(k);
      unreached = sizes_[k].count.over > 0 ? unreached + 1 : 0;
      if (unreached == kUnreached) return;
    }
  }
  void up() {
    for (size_t k = sizes_.size(); k-- > 1;) raise(k - 1, sizes_[k].fates);
  }
  // Where the next size costs most time beside this one.
  void between() {
    std::vector<size_t> steep;
    for (size_t k = 0; k + 1 < sizes_.size(); ++k) {
      if (sizes_[k + 1].count.over == 0) steep.push_back(k);
    }
    const auto rise = [&](size_t k) { return sizes_[k + 1].count.ms - sizes_[k].count.ms; };
    std::stable_sort(steep.begin(), steep.end(),
                     [&](size_t a, size_t b) { return rise(a) > rise(b); });
    steep.resize(std::min({steep.size(), kMostBetween, kBetweenNodes / nodes_}));
    for (const size_t above : steep) {
      const size_t k = sizes_.size(), below = above + 1;
      const double limit = std::sqrt(double(sizes_[above].limit) * double(sizes_[below].limit));
      sizes_.push_back({.limit = int64_t(limit)});
      lower(k, sizes_[above].fates);
      raise(k, sizes_[below].fates);
      if (sizes_[above].pays || sizes_[below].pays) renew(k);
    }
  }

 private:
  void keep(Size& size) {
    if (!size.fates.empty() && !is_better(descent_.now(), size.count)) return;
    size.fates = descent_.fates(), size.count = descent_.now();
  }
  void lower(size_t k, const Fates& from) {
    Size& size = sizes_[k];
    descent_.start_from(from, size.limit);
    descent_.lower(size.limit), descent_.raise(size.limit);
    keep(size);
  }
  void raise(size_t k, const Fates& from) {
    Size& size = sizes_[k];
    descent_.start_from(from, size.limit);
    descent_.raise(size.limit);
    keep(size);
  }
  void renew(size_t k) {
    Size& size = sizes_[k];
    const Sketch::Count before = size.count;
    descent_.start_from(size.fates, size.limit);
    for (size_t i = 0; i < std::size(kRenewed); ++i) {
      descent_.renew(size.limit, kRenewed[i], kRenewedNodes / int64_t(nodes_));
      const Sketch::Count& after = descent_.now();
      size.pays |= after.over < before.over || after.ms < (1 - kWorthRenewing) * before.ms;
      if (i + 1 >= kRenewedFirst && !size.pays && after.over == 0) break;
    }
    keep(size);
  }

  const Fates nothing_;
  Descent& descent_;
  const size_t nodes_;
  std::vector<Size> sizes_;
};

}  // namespace

std::vector<Chosen> choose_plans(const Program& program, const CompileOptions& options,
                                 const DeviceProfile& device, int64_t floor) {
  const Program step = before_clones(program, options);
  const RecomputeOptions asked = nothing_heavy(options.recompute_options);
  const StepView view(step, asked);
  DeviceProfile slower = device;
  slower.link *= kLinkInUse, slower.link_both *= kLinkInUse;
  Sketch sketch(view, order_of(step, options), slower,
                {.bits = asked.bits, .fuse = fusions_of(options), .inplace = options.inplace});
  if (sketch.open().empty()) return {};
  const size_t nodes = step.nodes.size();
  Descent descent(sketch, groups_of(sketch, view, std::max(kFewestGroups, kGroupNodes / nodes)));
  const int64_t most = sketch.count(sketch.nothing(), std::numeric_limits<int64_t>::max()).bytes;
  sketch.let_leave(least_worth_copying(most));
  std::vector<int64_t> limits;
  for (int k = 1; k <= kFrontLimits && floor < most; ++k) {
    const double part = std::pow(double(floor) / double(most), double(k) / kFrontLimits);
    limits.push_back(int64_t(double(most) * part));
  }
  Sizes sizes(sketch.nothing(), descent, nodes);
  sizes.down(limits), sizes.up(), sizes.between();
  std::vector<Chosen> out;
  for (const Sizes::Size& size : sizes.all()) {
    if (size.count.bytes >= most) continue;
    Chosen chosen{.limit = std::max(size.limit, size.count.bytes),
                  .bytes = size.count.bytes,
                  .added_ms = size.count.ms,
                  .away = sketch.away_of(size.fates)};
    const Choice choice = sketch.choice_of(size.fates);
    for (ValueId v : choice.ids()) {
      if (choice[v]) chosen.again.push_back(v);
    }
    out.push_back(std::move(chosen));
  }
  return unbeaten(std::move(out), &Chosen::added_ms, &Chosen::bytes);
}

}  // namespace pal
