// memory.auto: the plan that a step runs with, chosen from a budget.
//
// A step that fits as it was recorded is left as it is, and nothing is looked for. Of any other the
// front is made, or found among those on disk, and its fastest plan that keeps to the budget taken
// (memory/front/pool.h).
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "memory/front/pool.h"
#include "train/config/config.h"
#include "train/loop/front_cache.h"
#include "train/loop/task.h"

namespace pal {

// A front as it was had.
struct MadeFront {
  Front front;
  bool cached = false;
  double seconds = 0;  // to make or to find it
};

struct AutoPlan {
  Compiled step;
  std::shared_ptr<const MadeFront> made;  // null: the step fits as it was recorded
  size_t chosen = 0;                      // of the front's points
  std::string over;  // why nothing keeps to the budget; then `step` is the least found

  const FrontPoint& point() const { return made->front.points[chosen]; }
};

// How the plan of a point of a front is made: a queue for exchanges may take what limits leave.
// Of a point that is beyond them there is no queue.
CompileOptions options_of(const FrontPoint& point, const FrontLimits& limits);

class AutoPlanner {
 public:
  // `options`: the configuration's, with a profile: what every plan has in common. The budget in
  // them does not count.
  AutoPlanner(CompileOptions options, FrontChoices choices, FrontCache cache = FrontCache());

  // Made or found. A front that was found and whose plans are not what it says is made anew.
  // `anew`: made in any case.
  std::shared_ptr<const MadeFront> front(const Program& recorded, KernelCache& kernels,
                                         const StateLayout& layout, bool anew = false) const;
  // The same, or where its fastest plan takes more of the host's memory than there is, that of a
  // host_budget, if one of its plans is faster than what is left.
  std::shared_ptr<const MadeFront> front_within(const Program& recorded, KernelCache& kernels,
                                                const StateLayout& layout,
                                                const FrontLimits& limits, bool anew = false) const;
  AutoPlan plan(const Program& recorded, KernelCache& kernels, const StateLayout& layout,
                const FrontLimits& limits) const;
  // What every plan of a front has in common.
  const CompileOptions& options() const { return options_; }
  // How the step is planned where it fits as it was recorded.
  CompileOptions as_recorded() const;
  // The same with other times, those of the device whose branches get a queue (none: no device)
  // among them.
  AutoPlanner with_profile(const DeviceProfile& profile,
                           std::optional<DeviceProfile> branch_device) const;

 private:
  bool choose(AutoPlan& plan, const Program& recorded, KernelCache& kernels,
              const StateLayout& layout, const FrontLimits& limits) const;

  CompileOptions options_;  // no technique, no budget, nothing packed
  bool packs_ = true;       // the step as it was recorded, where that keeps to the budget
  FrontChoices choices_;
  FrontCache cache_;
};

// "no plan keeps to the budget of 1.00 GB: the least found is 1.20 GB (sqrt); state, inputs and
// what encoder/rnn/0 lstm touches are at least 1.05 GB".
std::string below(const Front& front, const FrontLimits& limits);
// "echo 9 %, 1.20 GB of 1.30 GB, +3.4 % predicted (RTX 2080 Ti); one of 14 plans, made in 2.3 s".
std::string describe(const AutoPlan& plan, const FrontLimits& limits);

// Of the buckets that may be the largest, the one whose step needs most as it was recorded.
std::pair<int64_t, int64_t> largest_bucket(const Task& task, const Config& config,
                                           KernelCache& kernels);

// The device at hand, as far as its times are known: a measured processor, a card that a profile in
// configs/devices is named for; else the papers' card. A processor has no link to the host; of one
// that several ranks share, a rank's part.
// `said`: whose times these are, for people.
DeviceProfile profile_at_hand(const Device& device, std::string* said = nullptr);

}  // namespace pal
