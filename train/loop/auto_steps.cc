// Planning, adding, and what to do where pinned memory is refused.
#include "train/loop/auto_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/accelerator.h"
#include "core/error.h"
#include "core/text.h"
#include "memory/price/node_times.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/run_files/log.h"
#include "train/run_files/node_times_file.h"

namespace pal {

AutoSteps::AutoSteps(const MemoryConfig& config, ProgramSet& programs, std::filesystem::path folder,
                     const std::optional<DeviceProfile>& device)
    : config_(config),
      programs_(programs),
      folder_(std::move(folder)),
      ranks_(programs.device().group) {
  if (!chooses_plan(config)) return;
  CompileOptions options = compile_options(config);
  options.exchange_device = programs.options().exchange_device;
  options.profile = device ? *device : profile_at_hand(programs.device(), &whose_times_);
  // Which values are rounded follows from the plan, so that it stays what it was.
  const bool may_time = !folder_.empty() && !rounds(config) && *config.profile_steps > 0;
  timing_ = may_time;
  if (may_time) {
    if (auto times = kept_times()) {
      options.profile->times = std::make_shared<NodeTimes>(std::move(*times));
      timing_ = false;
    }
  }
  if (!timing_) {  // beside another queue's nodes a node takes longer
    options.branch_device = programs.options().branch_device;
    if (options.branch_device) options.branch_device->times = options.profile->times;
  }
  planner_.emplace(std::move(options), FrontChoices{.lossy = allows(config, "lossy")});
}

std::optional<NodeTimes> AutoSteps::kept_times() const {
  const std::string text = ranks_.of_first([this] {
    std::string said;
    const auto times = load_node_times(times_file(), device_name(), &said);
    if (!said.empty()) log_info(said);
    return times ? text_of(*times, device_name()) : "";
  });
  if (text.empty()) return {};
  return parse_node_times(text);
}

Executable& AutoSteps::add(const std::string& name, const Program& recorded) {
  programs_.declare(recorded);
  FrontLimits limits{.device = (*config_.budget)->bytes, .host = host_limit(config_)};
  const int64_t most = limits.host;
  if (pinned_) limits.host = std::min(limits.host, *pinned_);
  bool grows = limits.host < most;  // only where nothing else keeps to the budget
  StateLayout layout = programs_.layout();
  while (true) {
    AutoPlan plan = planner_->plan(recorded, programs_.kernels(), layout, limits);
    if (!plan.over.empty() && std::exchange(grows, false)) {
      limits.host = most;
      continue;
    }
    if (!plan.over.empty() && layout.spare_inputs(recorded) > 0) {
      layout = layout.with_own_inputs();  // it waits for the steps of other buckets instead
      continue;
    }
    if (!plan.over.empty()) {
      least_ = plan.point().options;
      throw BudgetError(plan.over);
    }
    const std::string line = "auto " + name + ": " + describe(plan, limits);
    const int64_t host = plan.step.plan.host().bytes;
    try {
      Executable& added = programs_.add_compiled(name, std::move(plan.step));
      if (plan.made && !whose_times_.empty()) log_info("auto: " + whose_times_);
      if (plan.made) whose_times_.clear(), log_info(line);
      chosen_[name] = {plan.made, plan.chosen};
      pinned_ = std::max(pinned_.value_or(0), host);
      return added;
    } catch (const HostBudgetError& refused) {
      if (!plan.made || plan.point().offloaded == 0) throw;
      log_info("auto " + name + ": " + plan.point().from + " would take " + format_bytes(host) +
               " of pinned memory, which is refused (" + refused.what() +
               "); the next plan that takes less");
      limits.host = plan.point().host - 1, grows = false;
    }
  }
}

std::string AutoSteps::device_name() const {
  const Device& device = programs_.device();
  if (device.accelerator) return device.accelerator->description();
  return "cpu, " + std::to_string(device.threads) + " threads";
}

bool AutoSteps::has_front() const {
  return std::any_of(chosen_.begin(), chosen_.end(),
                     [](const auto& step) { return step.second.made != nullptr; });
}

void AutoSteps::ran(const std::string& name, Executable& program) {
  if (!timing_ || !has_front()) return;
  const auto [clock, first] = clocks_.try_emplace(name, size_t(*config_.profile_steps));
  if (first) return clock->second.start(program.runner());
  clock->second.look(program.runner());
}

bool AutoSteps::timed() {
  // All steps of several ranks are there before the first update. Whether one needs a front may
  // differ with threads.
  if (timing_ && !ranks_.is_alone() && !std::exchange(asked_, true)) {
    timing_ = ranks_.of_first([this] { return has_front(); });
  }
  if (!timing_ || (ranks_.is_alone() && clocks_.empty())) return false;
  // The update that started the clocks, one that does not count, and those that do.
  const auto done = [](const auto& clock) { return !clock.second.typical().empty(); };
  const bool enough =
      ++updates_ >= *config_.profile_steps + 2 && std::any_of(clocks_.begin(), clocks_.end(), done);
  return ranks_.of_first([=] { return enough; });
}

NodeTimes AutoSteps::measured_times() {
  TimedNodes timed;
  for (const auto& [name, clock] : clocks_) {
    const std::vector<int64_t> typical = clock.typical();
    if (typical.empty()) continue;
    const Compiled& c = programs_.find(name)->compiled();
    timed.add(c.program, ms_by_node(typical), predict(c.program, profile(), &c.storages).node_ms);
  }
  return timed.times();
}

void AutoSteps::plan_by_times() {
  timing_ = false;
  for (const auto& [name, clock] : clocks_) clock.stop(programs_.find(name)->runner());
  const std::string text = ranks_.of_first([this] {
    const NodeTimes measured = measured_times();
    try {
      save_node_times(times_file(), device_name(), measured);
    } catch (const Error& error) {  // the next session measures again
      log_info(std::string("auto: ") + error.what());
    }
    return text_of(measured, device_name());
  });
  clocks_.clear();
  const auto times = std::make_shared<NodeTimes>(parse_node_times(text));
  log_info("auto: " + std::to_string(times->ms.size()) + " kinds of nodes timed, in all " +
           fixed(times->scale, 2) +
           " times what was predicted; the plans are made anew by these times");
  DeviceProfile profile = this->profile();
  profile.times = times;
  planner_ = planner_->with_profile(profile, programs_.options().branch_device);
}

void AutoSteps::add_again(const std::string& name, const Program& recorded) {
  try {
    add(name, recorded);
  } catch (const BudgetError& error) {
    log_info("auto " + name + ": stays as it is (" + error.what() + ")");
  }
}

const MadeFront* AutoSteps::front_of(const std::string& name) const {
  const auto found = chosen_.find(name);
  return found == chosen_.end() ? nullptr : found->second.made.get();
}

const FrontPoint* AutoSteps::point_of(const std::string& name) const {
  const MadeFront* made = front_of(name);
  return made ? &made->front.points[chosen_.at(name).point] : nullptr;
}

}  // namespace pal
