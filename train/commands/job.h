// A training run in phases, from its folder to its report, for a command that runs one of them or
// several side by side.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/loop/node_clock.h"
#include "train/loop/train_args.h"
#include "train/loop/trainer.h"

namespace pal {

// Whether a folder holds a run, or what is left of one.
bool holds_run(const std::filesystem::path& folder);

// The phases come in the order in which they stand here. Nothing is written before begin_folder().
class Job {
 public:
  explicit Job(TrainArgs args);

  // What each of so many jobs takes of the host where its configuration does not say: its part of
  // the memory for copies, and threads that read images ahead on so many processors. Before load().
  void divide_host(int jobs, int processors);
  // Of the processor, where device.threads does not say. Before prepare().
  void set_threads(int threads);

  // UsageError where the run cannot begin, or go on, in its folder.
  void check_folder();
  // Reads the data; then its task is there, until prepare().
  void load();
  const Task& task() const { return *task_; }
  // Plans the largest step, draws or loads the weights. `share`: where jobs share memory.
  void prepare(PoolShare share = {});
  // Plans all other programs of the run too, before it begins.
  void plan_all();
  // The step that needs most, with the times of a device.
  StepShape largest_step(const DeviceProfile& device);
  // All other programs that are compiled by now.
  std::vector<StepShape> other_steps(const DeviceProfile& device);
  // Between steps. From the first call on, how long each node of that step takes is measured; the
  // median of a few steps, in nanoseconds, once there are so many. `last`: no call will follow.
  std::optional<std::vector<int64_t>> measured_times(bool last);
  // Device, data and plan, to the log.
  void describe();
  std::string plan();     // of the largest step, as plan.json
  int64_t bytes() const;  // that its programs hold on the device so far
  void begin_folder();
  // Trains until the run is over, or until `stop` turns true, or `go_on`, which is asked before
  // each step, does not; saves.
  void run(const std::atomic<bool>& stop, const std::function<bool()>& go_on = {});
  // Between steps: has the job's programs compiled for so many threads. False, and nothing has
  // changed, where its configuration says how many, or its results would depend on it.
  // BudgetError where they do not fit then.
  bool change_threads(int threads);
  int threads() const { return running_.config.device.threads->value_or(0); }
  bool interrupted() const { return reason_ == "interrupted"; }
  // The final test and the report, where the run is over. Returns summary() with the test's
  // metrics.
  nlohmann::json finish();
  nlohmann::json summary() const;  // steps, epoch, reason, out, seconds
  // Frees all memory, data and threads of the run, and leaves the pool. No phase may follow.
  void release();

  const TrainArgs& args() const { return args_; }
  const Config& config() const { return running_.config; }  // with the threads

 private:
  void check_run();
  void pin_recording();
  std::string fastest_recording() const;  // its name

  TrainArgs args_;
  TrainArgs running_;  // args_ with the threads
  PoolShare share_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<NodeClock> clock_;  // while nodes are timed
  std::string reason_ = "failed";   // why it ended; so it reads until run() returns
};

}  // namespace pal
