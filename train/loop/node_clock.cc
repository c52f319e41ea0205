// Traces, and what is typical of them.
#include "train/loop/node_clock.h"

#include <algorithm>

#include "memory/price/node_times.h"

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

std::vector<int64_t> NodeClock::typical() const {
  if (runs_.size() < 2) return {};
  return typical_run({runs_.begin() + 1, runs_.end()});
}

}  // namespace pal
