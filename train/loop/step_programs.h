// The programs of a run's training step: one for each bucket and place in an update, compiled when
// it is first asked for, and which plan of it a micro-batch runs.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "train/loop/auto_steps.h"
#include "train/loop/micro_batch_pairs.h"
#include "train/loop/sparse_steps.h"
#include "train/loop/step_program.h"
#include "train/loop/task.h"
#include "train/run_files/metrics.h"

namespace pal {

class StepPrograms {
 public:
  // `checkpoint`: the file that round_as() is told of, for errors. `times`: the folder where times
  // that were measured are kept; empty: none are measured.
  StepPrograms(const Config& config, Task& task, ProgramSet& programs, std::string checkpoint,
               std::filesystem::path times)
      : config_(config),
        task_(task),
        programs_(programs),
        checkpoint_(std::move(checkpoint)),
        sparse_(config.memory, programs),
        auto_(config.memory, programs, std::move(times)),
        pairs_(config, programs),
        update_(update_of(config)) {}

  // Of the last micro-batch, the one with the largest plan, and its bucket.
  Executable& largest();
  std::string largest_name() { return largest(), name(largest_bucket_, largest_kind()); }
  int largest_bucket() { return largest(), largest_bucket_; }
  Executable& find(int bucket, MicroBatch kind);
  // Null where two micro-batches of the bucket run one behind the other.
  Executable* find_pair(int bucket, MicroBatch first, MicroBatch second);
  // The pair of the largest bucket, if there is one.
  void add_largest_pair();
  // All that an update may take.
  void add_all();
  std::string name(int bucket, MicroBatch kind) const;

  // Fills the program of a micro-batch and runs it; where its sparse plan had too little room, the
  // dense one too. Returns the one whose outputs and updates count. `overflowed` is told of the
  // layers that had too little room.
  Executable& run(int bucket, MicroBatch kind, const std::function<void(Executable&)>& fill,
                  const std::function<void(const std::vector<std::string>& layers)>& overflowed);

  // After an update: plans anew, once, where the times of nodes are known by now.
  void update_done();

  // By program, which of its values are rounded; UsageError where a program's plan rounds others
  // than are known here. Empty without a rounding form.
  const std::map<std::string, std::string>& rounded() const { return rounded_; }
  // Of several ranks: each program as it was recorded, by a number that stands for it.
  const std::map<std::string, std::string>& recorded() const { return recorded_; }
  // As a run's checkpoint says. Compiles all programs that it names.
  void round_as(const std::map<std::string, std::string>& rounded);

  // Tells of each plan that is made from here on, and first of all that were made before. The
  // rows' step is left to whom they are told.
  void tell(std::function<void(PlanRow)> of_plan);

  const AutoSteps& chosen() const { return auto_; }
  const SparseSteps& sparse() const { return sparse_; }
  const MicroBatchPairs& pairs() const { return pairs_; }
  const Update& update() const { return update_; }

 private:
  Program record(int bucket, MicroBatch kind) const;
  int largest_as_recorded();
  MicroBatch largest_kind() const { return update_.last(); }
  void tell_of(const std::string& name, int bucket, const Compiled& compiled);
  void check_exchanges(const std::string& name, MicroBatch kind, const std::string& recorded,
                       const Program& planned);
  void check_rounding(const std::string& name, const std::string& digits);

  const Config& config_;
  Task& task_;
  ProgramSet& programs_;
  const std::string checkpoint_;
  SparseSteps sparse_;
  AutoSteps auto_;
  MicroBatchPairs pairs_;
  const Update update_;
  std::map<std::string, std::string> rounded_, recorded_;
  std::map<std::string, std::string> exchanges_;  // by kind of micro-batch
  std::vector<PlanRow> untold_;
  std::function<void(PlanRow)> tell_;
  int largest_bucket_ = -1;  // not known yet
  bool has_room_ = false;    // for the inputs of all buckets
};

}  // namespace pal
