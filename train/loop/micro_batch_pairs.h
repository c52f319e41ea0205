// train.overlap_micro_batches: which micro-batches of an update run side by side, and the programs
// of those that do.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "memory/run/program_set.h"
#include "train/config/config.h"
#include "train/loop/step_program.h"

namespace pal {

class MicroBatchPairs {
 public:
  MicroBatchPairs(const Config& config, ProgramSet& programs)
      : config_(config.train), update_(update_of(config)), programs_(programs) {}

  // The kinds of the last two micro-batches that run side by side in an update: its last two, or,
  // where their number is odd, those before.
  std::pair<MicroBatch, MicroBatch> last_pair() const;

  // The program of a pair, compiled when it is first asked for (second: true then). Null where
  // nothing is overlapped, and where the two do not fit memory.budget together, which is logged
  // once; then they run one behind the other.
  std::pair<Executable*, bool> find(const std::string& name,
                                    const std::function<Program(int part)>& record);

  // A line for reports, of the first pair; "" where there is none.
  const std::string& described() const { return described_; }

 private:
  const TrainConfig& config_;
  const Update update_;
  ProgramSet& programs_;
  std::set<std::string> too_large_;
  std::string described_;
};

}  // namespace pal
