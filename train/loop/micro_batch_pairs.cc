// Pairs that fit, and those that do not.
#include "train/loop/micro_batch_pairs.h"

#include "core/error.h"
#include "train/run_files/log.h"

namespace pal {

std::pair<MicroBatch, MicroBatch> MicroBatchPairs::last_pair() const {
  const int64_t n = update_.per_rank(), i = n - 2 - n % 2;
  if (i < 0) return {MicroBatch::only, MicroBatch::only};
  return {update_.kind(i), update_.kind(i + 1)};
}

std::pair<Executable*, bool> MicroBatchPairs::find(const std::string& name,
                                                   const std::function<Program(int part)>& record) {
  if (!*config_.overlap_micro_batches || too_large_.contains(name)) return {nullptr, false};
  if (Executable* ready = programs_.find(name)) return {ready, false};
  try {
    Executable& made = programs_.add_pair(name, record(0), record(1));
    const std::string line =
        "micro-batches overlapped, " + name + ": " + to_string(made.compiled().passes.back());
    if (described_.empty()) described_ = line;
    log_info(line);
    return {&made, true};
  } catch (const BudgetError& error) {
    too_large_.insert(name);
    log_warn("train.overlap_micro_batches: " + name +
             " runs one micro-batch behind the other: " + error.what());
    return {nullptr, false};
  }
}

}  // namespace pal
