// How the jobs of pal corun share the device's memory: chosen from the plans of all their programs
// before any of them runs, and anew where the budget changes or a job ends.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "memory/run/program_set.h"
#include "memory/share/corun_plan.h"
#include "train/commands/budget_file.h"
#include "train/commands/commands.h"
#include "train/commands/corun_trial.h"
#include "train/commands/job.h"
#include "train/report/corun_page.h"

namespace pal {

class CorunMemory {
 public:
  // Of jobs that are not yet prepared; gives them their threads.
  CorunMemory(const std::vector<std::unique_ptr<Job>>& jobs, const CorunArgs& args);
  CorunMemory(const CorunMemory&) = delete;
  CorunMemory& operator=(const CorunMemory&) = delete;

  // A job's place in the pool; none where each has its own memory.
  PoolShare share(size_t job) const {
    return {pool_, JobId(job), std::make_shared<const DeviceProfile>(device_)};
  }
  // When all programs of all jobs are planned. BudgetError where the mode does not fit the budget:
  // what each job needs, and what is missing.
  void choose();
  // For people: what is shared, and what it is predicted to gain over turns.
  std::vector<std::string> lines() const;
  nlohmann::json json() const;
  // The page of what is planned. UsageError where each job has its own memory.
  CorunPage page() const;
  // How long a job has waited; empty where no job waits.
  std::string waits_line(size_t job) const;

  // By the job's thread between its steps: what has changed takes effect. False where the job is to
  // save and end, because the budget is too small for it; why_ended() says so.
  bool before_step(size_t job);
  std::string why_ended(size_t job) const;
  // The job has ended or failed, and holds nothing: its memory and threads are the others'.
  void left(size_t job);

 private:
  struct Member {
    Job* job = nullptr;
    StepShape step;                 // the largest
    std::vector<StepShape> others;  // other programs
    JobNeeds needs;                 // of all its programs
    int threads = 0;
    bool left = false;           // it has ended
    std::string ends;            // why it must; empty: it need not
    bool keeps_threads = false;  // it cannot have others
    // How long the nodes of `step` take with so many threads, once measured; steps until then.
    std::vector<int64_t> node_ns;
    int measured_threads = 0, unmeasured_steps = 0;

    int64_t alone_bytes() const { return needs.own_bytes + needs.height; }
  };
  using Ids = std::vector<JobId>;  // rising

  bool in_turns() const;
  int wanted_threads() const;
  void look_at(size_t job);
  void change_threads(size_t job, int threads);
  Ids present(bool staying) const;
  int64_t own_bytes(const Ids& jobs) const;
  int64_t tallest(const Ids& jobs) const;
  int64_t least_bytes(const Ids& jobs) const;
  std::string needs_of(const Ids& jobs) const;
  void check_least(const Ids& jobs) const;
  PoolUse turns_of(const Ids& jobs) const;
  std::optional<PoolUse> best_of(const Ids& jobs);
  std::optional<CorunWay> best_way(const std::vector<const StepShape*>& steps) const;
  void fit_parts(PoolUse& use) const;
  void add_others(PoolUse& use, std::vector<StepShape>& shapes) const;
  void begin_use(PoolUse use);
  void replan(bool stay_in_turns);
  int threads_beside(const Member& member, size_t jobs) const;
  StepShape step_beside(const Member& member, size_t jobs) const;
  void measure(size_t job);
  void begin_trial();
  void look_at_trial();
  void set_budget(int64_t budget);
  std::string name_of_job(JobId job) const;

  const CorunArgs& args_;
  DeviceProfile device_;  // whose times decide
  std::shared_ptr<SharedPool> pool_;
  bool on_processor_ = true;
  mutable std::mutex mutex_;
  int64_t budget_;
  std::vector<Member> members_;
  PoolUse use_;
  std::vector<double> turns_;  // rates in turns
  // With --mode auto, where jobs begin side by side: whether they stay so.
  std::optional<CorunTrial> trial_;
  const Clock::time_point begin_ = Clock::now();
  BudgetFile file_;
  std::atomic<int> compiling_ = 0;  // jobs whose programs are compiled anew
};

}  // namespace pal
