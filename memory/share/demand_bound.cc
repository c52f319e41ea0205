// A linear program so small that all its corners are tried.
#include "memory/share/demand_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace pal {
namespace {

struct Limit {  // sum of part * rate <= most
  std::vector<double> part;
  double most = 0;
};

// Where all of the limits are reached, as many as there are rates; by Gauss, with pivots.
std::optional<std::vector<double>> corner(std::vector<Limit> limits) {
  const size_t n = limits.size();
  for (size_t i = 0; i < n; ++i) {
    const auto largest = std::max_element(
        limits.begin() + std::ptrdiff_t(i), limits.end(),
        [&](const Limit& a, const Limit& b) { return std::abs(a.part[i]) < std::abs(b.part[i]); });
    std::swap(*largest, limits[i]);
    if (std::abs(limits[i].part[i]) < 1e-12) return {};
    for (size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double times = limits[r].part[i] / limits[i].part[i];
      for (size_t c = i; c < n; ++c) limits[r].part[c] -= times * limits[i].part[c];
      limits[r].most -= times * limits[i].most;
    }
  }
  std::vector<double> rate;
  for (size_t i = 0; i < n; ++i) rate.push_back(limits[i].most / limits[i].part[i]);
  return rate;
}

bool within(const std::vector<Limit>& limits, const std::vector<double>& rate) {
  return std::all_of(limits.begin(), limits.end(), [&](const Limit& limit) {
    return std::inner_product(rate.begin(), rate.end(), limit.part.begin(), 0.0) <=
           limit.most + 1e-9;
  });
}

std::vector<Limit> limits_of(const std::vector<const StepShape*>& jobs,
                             const std::vector<double>& least) {
  const size_t n = jobs.size();
  std::vector<Limit> limits(3, {std::vector<double>(n), 1});
  for (size_t j = 0; j < n; ++j) {
    const DeviceUse use = use_of(*jobs[j]);
    limits[0].part[j] = use.flops, limits[1].part[j] = use.memory, limits[2].part[j] = use.units;
    Limit fastest{std::vector<double>(n), 1};
    fastest.part[j] = 1;
    Limit slowest{std::vector<double>(n), least.empty() ? 0 : -least[j]};
    slowest.part[j] = -1;
    limits.push_back(fastest), limits.push_back(slowest);
  }
  return limits;
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
  const std::vector<Limit> limits = limits_of(jobs, least);
  DemandBound best;
  // A corner for each choice of as many limits as there are jobs.
  std::vector<char> chosen(limits.size(), 0);
  std::fill(chosen.begin(), chosen.begin() + std::ptrdiff_t(jobs.size()), 1);
  do {
    std::vector<Limit> some;
    for (size_t i = 0; i < limits.size(); ++i) {
      if (chosen[i]) some.push_back(limits[i]);
    }
    const auto rate = corner(std::move(some));
    if (!rate || !within(limits, *rate)) continue;
    const double total = std::accumulate(rate->begin(), rate->end(), 0.0);
    if (total > best.total) best = {total, *rate};
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return best;
}

}  // namespace pal
