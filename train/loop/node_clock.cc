// Traces, and their medians.
#include "train/loop/node_clock.h"

#include <algorithm>

namespace pal {
namespace {

void set_trace(Runner& runner, bool on) {
  RunOptions options = runner.options();
  options.trace = on;
  runner.set_options(options);
}

}  // namespace

void NodeClock::start(Runner& runner) { set_trace(runner, true); }

void NodeClock::stop(Runner& runner) const { set_trace(runner, false); }

void NodeClock::look(const Runner& runner) {
  std::vector<int64_t> times = runner.node_times();
  const bool ran = std::any_of(times.begin(), times.end(), [](int64_t ns) { return ns > 0; });
  if (ran && !done() && (runs_.empty() || times != runs_.back())) runs_.push_back(std::move(times));
}

std::vector<int64_t> NodeClock::medians() const {
  if (runs_.size() < 2) return {};
  const size_t counted = runs_.size() - 1;
  std::vector<int64_t> medians(runs_[0].size()), of_node(counted);
  for (size_t n = 0; n < medians.size(); ++n) {
    for (size_t i = 0; i < counted; ++i) of_node[i] = runs_[i + 1][n];
    const auto middle = of_node.begin() + std::ptrdiff_t((counted - 1) / 2);
    std::nth_element(of_node.begin(), middle, of_node.end());
    medians[n] = *middle;
  }
  return medians;
}

}  // namespace pal
