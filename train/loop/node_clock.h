// Times a program's nodes over some of its runs. For whoever plans by what a machine really takes:
// jobs beside each other (train/commands/corun_memory.h), plans chosen from a budget
// (train/loop/auto_steps.h).
#pragma once
#include <cstdint>
#include <vector>

#include "core/runner.h"

namespace pal {

class NodeClock {
 public:
  // So many runs are counted, after one that is not.
  explicit NodeClock(size_t runs) : wanted_(runs + 1) {}

  void start(Runner& runner);
  // Between runs. A run that was looked at before counts once.
  void look(const Runner& runner);
  bool done() const { return runs_.size() >= wanted_; }
  // What was counted is kept.
  void stop(Runner& runner) const;
  // Nanoseconds of each node, of the runs that count (typical_run()); empty where there is none.
  std::vector<int64_t> typical() const;

 private:
  size_t wanted_;
  std::vector<std::vector<int64_t>> runs_;  // of each, the nodes' times
};

}  // namespace pal
