// The plans of a run's steps under memory.auto: each of the set's training programs keeps to the
// one budget by the fastest plan of its own front.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "memory/price/node_times.h"
#include "memory/run/program_set.h"
#include "train/config/config.h"
#include "train/loop/auto_plan.h"
#include "train/loop/node_clock.h"
#include "train/loop/rank_talk.h"

namespace pal {

class AutoSteps {
 public:
  // `folder`: of the run, where times that were measured are kept; empty: nowhere, and none are.
  // Ranks of a run all plan by rank 0's, which stand in rank 0's folder; then this, timed() and
  // plan_by_times() are what all call.
  // `device`: whose times count before; none: profile_at_hand().
  AutoSteps(const MemoryConfig& config, ProgramSet& programs, std::filesystem::path folder,
            const std::optional<DeviceProfile>& device = {});

  // Off: nothing below is to be called.
  bool on() const { return planner_.has_value(); }

  // Plans a step and adds it. Where the machine has not so much pinned memory as the fastest plan
  // takes, the next that takes less; later steps take no more than there is by then, so that
  // nothing is refused while training, unless they keep to the budget no other way. BudgetError
  // where no plan does.
  Executable& add(const std::string& name, const Program& recorded);
  // The front of a step that was added, and the point that it runs at; null: it fits as it was
  // recorded, or is not there.
  const MadeFront* front_of(const std::string& name) const;
  const FrontPoint* point_of(const std::string& name) const;
  // memory.profile_steps: nodes are timed from a step's first run on, where any step is not as it
  // was recorded. After each run of a program, and after each update: true once there are enough
  // times. Then plan_by_times() keeps them and plans by them from here on; the steps that stand in
  // front_of() are to be added again.
  void ran(const std::string& name, Executable& program);
  bool timed();
  void plan_by_times();
  // A step that was added, anew; it stays as it is where the new times know no plan that fits.
  void add_again(const std::string& name, const Program& recorded);

  const DeviceProfile& profile() const { return *planner_->options().profile; }
  // After a BudgetError: what needs least, for advice.
  const std::optional<CompileOptions>& least() const { return least_; }

 private:
  struct Chosen {
    std::shared_ptr<const MadeFront> made;
    size_t point = 0;
  };

  std::filesystem::path times_file() const { return folder_ / "times.json"; }
  bool has_front() const;
  std::optional<NodeTimes> kept_times() const;
  NodeTimes measured_times();
  std::string device_name() const;

  const MemoryConfig& config_;
  ProgramSet& programs_;
  const std::filesystem::path folder_;
  const RankTalk ranks_;
  std::string whose_times_;  // to be told of once, where they count
  bool timing_ = false;
  bool asked_ = false;   // rank 0, whether there is anything to time
  int64_t updates_ = 0;  // that were timed
  std::map<std::string, NodeClock> clocks_;
  std::optional<AutoPlanner> planner_;
  std::optional<int64_t> pinned_;  // bytes, once the first step is there
  std::map<std::string, Chosen> chosen_;
  std::optional<CompileOptions> least_;
};

}  // namespace pal
