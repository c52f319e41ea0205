// A walk down the grid, and one up.
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

struct Found {
  Fates fates;
  Sketch::Count count;
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
                {.bits = asked.bits, .fuse = options.fuse_recompute, .inplace = options.inplace});
  if (sketch.open().empty()) return {};
  const size_t nodes = step.nodes.size();
  Descent descent(sketch, groups_of(sketch, view, std::max(kFewestGroups, kGroupNodes / nodes)));
  const Fates nothing = sketch.nothing();
  const int64_t most = sketch.count(nothing, std::numeric_limits<int64_t>::max()).bytes;
  sketch.let_leave(least_worth_copying(most));
  std::vector<int64_t> limits;
  for (int k = 1; k <= kFrontLimits && floor < most; ++k) {
    const double part = std::pow(double(floor) / double(most), double(k) / kFrontLimits);
    limits.push_back(int64_t(double(most) * part));
  }
  std::vector<Found> found(limits.size());
  std::vector<char> pays(limits.size(), 0);
  const auto keep = [&](size_t k) {
    if (!found[k].fates.empty() && !is_better(descent.now(), found[k].count)) return;
    found[k] = {descent.fates(), descent.now()};
  };
  const auto begin = [&](size_t k, const Fates& fates) {
    descent.start_from(fates, limits[k]);
    descent.lower(limits[k]), descent.raise(limits[k]);
    keep(k);
  };
  const auto renew = [&](size_t k) {
    const Sketch::Count before = found[k].count;
    descent.start_from(found[k].fates, limits[k]);
    bool paid = false;
    for (size_t i = 0; i < std::size(kRenewed); ++i) {
      descent.renew(limits[k], kRenewed[i], kRenewedNodes / int64_t(nodes));
      const Sketch::Count& after = descent.now();
      paid |= after.over < before.over || after.ms < (1 - kWorthRenewing) * before.ms;
      if (i + 1 >= kRenewedFirst && !paid && after.over == 0) break;
    }
    keep(k);
    return paid;
  };
  for (size_t k = 0, unreached = 0; k < limits.size(); ++k) {
    if (k == 0 || nodes <= kAnewNodes) begin(k, nothing);
    if (k > 0) begin(k, found[k - 1].fates);
    if (k == 0 || pays[k - 1] || k % kRenewedEvery == 0) pays[k] = renew(k);
    unreached = found[k].count.over > 0 ? unreached + 1 : 0;
    if (unreached == kUnreached) limits.resize(k + 1), found.resize(k + 1);
  }
  for (size_t k = limits.size(); k-- > 1;) {
    descent.start_from(found[k].fates, limits[k - 1]);
    descent.raise(limits[k - 1]);
    keep(k - 1);
  }
  const auto rise = [&](size_t k) { return found[k + 1].count.ms - found[k].count.ms; };
  std::vector<size_t> steep;
  for (size_t k = 0; k + 1 < limits.size(); ++k) {
    if (found[k + 1].count.over == 0) steep.push_back(k);
  }
  std::stable_sort(steep.begin(), steep.end(),
                   [&](size_t a, size_t b) { return rise(a) > rise(b); });
  steep.resize(std::min({steep.size(), kMostBetween, kBetweenNodes / nodes}));
  for (const size_t k : steep) {
    const size_t between = limits.size();
    limits.push_back(int64_t(std::sqrt(double(limits[k]) * double(limits[k + 1]))));
    found.emplace_back();
    begin(between, found[k].fates);
    descent.start_from(found[k + 1].fates, limits[between]);
    descent.raise(limits[between]);
    keep(between);
    if (pays[k] || pays[k + 1]) renew(between);
  }
  std::vector<Chosen> out;
  for (size_t k = 0; k < found.size(); ++k) {
    const Sketch::Count& count = found[k].count;
    if (count.bytes >= most) continue;
    const Choice choice = sketch.choice_of(found[k].fates);
    Chosen chosen{.limit = std::max(limits[k], count.bytes),
                  .bytes = count.bytes,
                  .added_ms = count.ms,
                  .away = sketch.away_of(found[k].fates)};
    for (ValueId v : choice.ids()) {
      if (choice[v]) chosen.again.push_back(v);
    }
    out.push_back(std::move(chosen));
  }
  return unbeaten(std::move(out), &Chosen::added_ms, &Chosen::bytes);
}

}  // namespace pal
