// Demands over a step, and over the stretches of it that meet another's longest nodes.
#include "memory/share/demand_bound.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "memory/linear/most_within.h"

namespace pal {
namespace {

constexpr double kFull = 0.999;  // units of a node that leaves none to others
constexpr double kLong = 1e-3;   // of its step, that such a node takes at least
constexpr int kSlopes = 64;

bool is_long(const NodeDemand& d, double step_ms) {
  return d.units >= kFull && d.work_ms >= kLong * step_ms;
}

// What a job does while another works for long with all units: of any stretch of its steps, `ms`
// long alone without its own long nodes, the units times their milliseconds are at least
// slope * ms - less.
double less_of(const StepShape& shape, double slope) {
  double most = 0, now = 0;
  const auto add = [&](double gain) {
    now = std::max(0.0, now + gain), most = std::max(most, now);
  };
  for (int period = 0; period < 2; ++period) {
    for (const NodeDemand& d : shape.nodes) {
      add(slope * (d.idle_ms + d.launch_ms));
      if (!is_long(d, shape.ms())) add((slope - d.units) * d.work_ms);
    }
  }
  return most;
}

struct LongNodes {
  double share = 0, per_ms = 0;  // of the step's time; how many of them
  double others_units = 0;       // that the other nodes ask for, on average over their time
};

LongNodes long_nodes(const StepShape& shape) {
  LongNodes out;
  const double ms = shape.ms();
  for (const NodeDemand& d : shape.nodes) {
    if (is_long(d, ms)) {
      out.share += d.work_ms / ms, out.per_ms += 1 / ms;
    } else {
      out.others_units += d.units * d.work_ms / ms;
    }
  }
  if (out.share < 1) out.others_units /= 1 - out.share;
  return out;
}

// Limits that follow from two jobs' long nodes. The unknowns, all as parts of the time: the rates;
// what each gets done of its other nodes while the other job alone is at a long one; what each gets
// done of its long ones while both are; the time in which the first alone is at a long one, the
// second alone, and both. One long node is met by one stretch of the other's steps.
void add_long_nodes(const std::vector<const StepShape*>& jobs, std::vector<Limit>& limits) {
  enum : size_t { kRate = 0, kBeside = 2, kBoth = 4, kAlone = 6, kTogether = 8, kUnknowns = 9 };
  const LongNodes nodes[] = {long_nodes(*jobs[0]), long_nodes(*jobs[1])};
  for (Limit& limit : limits) limit.part.resize(kUnknowns, 0);
  const auto add = [&](std::initializer_list<std::pair<size_t, double>> parts, double most) {
    Limit limit{std::vector<double>(kUnknowns, 0), most};
    for (const auto& [unknown, part] : parts) limit.part[unknown] += part;
    limits.push_back(std::move(limit));
  };
  for (size_t j = 0; j < 2; ++j) {
    const size_t other = 1 - j;
    const double share = nodes[j].share, per_ms = nodes[j].per_ms;
    add({{kRate + j, share}, {kBoth + j, -1}, {kAlone + j, -1}}, 0);
    add({{kBeside + other, 1}, {kAlone + j, -1}}, 0);
    add({{kBoth + j, 1}, {kRate + j, -share}}, 0);
    add({{kBeside + j, 1}, {kRate + j, share - 1}}, 0);
    add({{kBoth + j, 1}, {kTogether, -1}}, 0);
    // Neither is at a long node.
    add({{kRate + j, 1 - share}, {kBeside + j, -1}, {kAlone, 1}, {kAlone + 1, 1}, {kTogether, 1}},
        1);
    for (int i = 1; i < kSlopes; ++i) {
      const double slope = nodes[other].others_units * i / kSlopes;
      add({{kRate + j, kFull * share - less_of(*jobs[other], slope) * per_ms},
           {kBoth + j, -kFull},
           {kBeside + other, slope},
           {kAlone + j, -1}},
          0);
    }
  }
  add({{kBoth, kFull}, {kBoth + 1, kFull}, {kTogether, -1}}, 0);
  add({{kAlone, 1}, {kAlone + 1, 1}, {kTogether, 1}}, 1);
}

}  // namespace

double DeviceUse::most() const { return std::max({flops, memory, units}); }

DeviceUse use_of(const StepShape& shape) {
  DeviceUse use;
  for (const NodeDemand& d : shape.nodes) {
    use.flops += d.work_ms * d.flops, use.memory += d.work_ms * d.memory;
    use.units += d.work_ms * d.units;
  }
  const double ms = shape.ms();
  return {use.flops / ms, use.memory / ms, use.units / ms};
}

DemandBound demand_bound(const std::vector<const StepShape*>& jobs,
                         const std::vector<double>& least) {
  const size_t n = jobs.size();
  std::vector<Limit> limits(3, {std::vector<double>(n), 1});
  for (size_t j = 0; j < n; ++j) {
    const DeviceUse use = use_of(*jobs[j]);
    limits[0].part[j] = use.flops, limits[1].part[j] = use.memory, limits[2].part[j] = use.units;
    Limit fastest{std::vector<double>(n), 1};
    fastest.part[j] = 1;
    limits.push_back(fastest);
  }
  if (least.empty() && n == 2) add_long_nodes(jobs, limits);
  // From the least that each must have.
  for (Limit& limit : limits) {
    for (size_t j = 0; j < least.size(); ++j) limit.most -= limit.part[j] * least[j];
    if (limit.most < 0) return {};
  }
  std::vector<double> gain(limits[0].part.size(), 0);
  std::fill(gain.begin(), gain.begin() + std::ptrdiff_t(n), 1);
  DemandBound out{.rate = most_within(limits, gain)};
  out.rate.resize(n);
  for (size_t j = 0; j < least.size(); ++j) out.rate[j] += least[j];
  out.total = std::accumulate(out.rate.begin(), out.rate.end(), 0.0);
  return out;
}

}  // namespace pal
