// Looking up, choosing, and saying what was chosen.
#include "train/loop/auto_plan.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "core/accelerator.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/ranks/group.h"
#include "core/text.h"
#include "memory/front/may_be_faster.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/step_program.h"
#include "train/run_files/log.h"

namespace pal {

AutoPlanner::AutoPlanner(CompileOptions options, FrontChoices choices, FrontCache cache)
    : options_(std::move(options)), choices_(choices), cache_(std::move(cache)) {
  options_ = without_techniques(std::move(options_));
  packs_ = std::exchange(options_.layouts, false);
}

CompileOptions AutoPlanner::as_recorded() const {
  CompileOptions plain = options_;
  plain.layouts = packs_;
  return plain;
}

AutoPlanner AutoPlanner::with_profile(const DeviceProfile& profile,
                                      std::optional<DeviceProfile> branch_device) const {
  AutoPlanner other = *this;
  if (branch_device) branch_device->times = profile.times;
  other.options_.profile = profile, other.options_.branch_device = std::move(branch_device);
  return other;
}

std::shared_ptr<const MadeFront> AutoPlanner::front(const Program& recorded, KernelCache& kernels,
                                                    const StateLayout& layout, bool anew) const {
  const Clock::time_point start = Clock::now();
  const uint64_t key = front_key(recorded, layout, options_, kernels.device(), choices_);
  auto made = std::make_shared<MadeFront>();
  std::optional<Front> kept;
  if (!anew) kept = cache_.find(key, options_, choices_);
  if (kept) {
    made->front = std::move(*kept), made->cached = true;
  } else {
    made->front = make_front(recorded, kernels, layout, options_, choices_);
    cache_.keep(key, made->front);
  }
  made->seconds = seconds_since(start);
  return made;
}

namespace {

// Bytes of the host as fronts are kept for: what is free changes all the time.
int64_t rounded_down(int64_t bytes) {
  if (bytes <= 0) return 0;
  const int below = std::max(int(std::bit_width(uint64_t(bytes))) - 3, 0);
  return bytes >> below << below;
}

}  // namespace

std::shared_ptr<const MadeFront> AutoPlanner::front_within(const Program& recorded,
                                                           KernelCache& kernels,
                                                           const StateLayout& layout,
                                                           const FrontLimits& limits,
                                                           bool anew) const {
  auto all = front(recorded, kernels, layout, anew);
  const FrontPoint* own = all->front.pick(limits);
  const FrontPoint* fastest = all->front.pick({.device = limits.device, .step_ms = limits.step_ms});
  if (own == fastest) return all;
  AutoPlanner fewer = *this;
  fewer.options_.host_budget =
      std::min(rounded_down(limits.host), options_.host_budget.value_or(limits.host));
  auto within = std::make_shared<MadeFront>(*fewer.front(recorded, kernels, layout, anew));
  within->seconds += all->seconds;
  const FrontPoint* other = within->front.pick(limits);
  if (!other || (own && own->step_ms <= other->step_ms)) return all;
  return within;
}

CompileOptions options_of(const FrontPoint& point, const FrontLimits& limits) {
  CompileOptions options = point.options;
  if (point.bytes > limits.device) {
    options.exchange_device = {}, options.branch_device = {};
  } else if (options.exchange_device || options.branch_device) {
    options.queue_budget = limits.device;
  }
  return options;
}

// False: the front's plans are not what it says.
bool AutoPlanner::choose(AutoPlan& plan, const Program& recorded, KernelCache& kernels,
                         const StateLayout& layout, const FrontLimits& limits) const {
  const Front& front = plan.made->front;
  const FrontPoint* chosen = front.pick(limits);
  if (!chosen) {
    plan.over = below(front, limits);
    chosen = &front.points.front();
  }
  plan.chosen = size_t(chosen - front.points.data());
  const CompileOptions options = options_of(*chosen, limits);
  const bool queue = options.queue_budget.has_value();
  try {
    plan.step = compile(recorded, kernels, layout, options);
  } catch (const Error&) {
    if (!plan.made->cached) throw;
    return false;  // the file names what this step has not
  }
  const int64_t bytes = plan.step.plan.device().bytes, host = plan.step.plan.host().bytes;
  // What is not offloaded is in the host's memory whatever its limit is.
  if (queue) return bytes <= limits.device && host <= std::max(limits.host, chosen->host);
  return bytes == chosen->bytes && host == chosen->host;
}

AutoPlan AutoPlanner::plan(const Program& recorded, KernelCache& kernels, const StateLayout& layout,
                           const FrontLimits& limits) const {
  AutoPlan out;
  CompileOptions plain = as_recorded();
  plain.budget = limits.device;
  out.step = compile(recorded, kernels, layout, plain);
  const bool fits = out.step.plan.device().bytes <= limits.device;
  if (fits && !may_be_faster(recorded, kernels, layout, options_)) return out;
  out.made = front_within(recorded, kernels, layout, limits);
  if (choose(out, recorded, kernels, layout, limits)) return out;
  if (out.made->cached) {
    log_info("a front that was kept holds other plans than it says; it is made anew");
    out.made = front_within(recorded, kernels, layout, limits, true);
    if (choose(out, recorded, kernels, layout, limits)) return out;
  }
  throw ProgramError("[auto] " + out.point().from + ": the front says " +
                     format_bytes(out.point().bytes) + ", its plan takes " +
                     format_bytes(out.step.plan.device().bytes));
}

std::string below(const Front& front, const FrontLimits& limits) {
  const FrontPoint& least = front.points.front();
  std::string text = "no plan keeps to the budget of " + format_bytes(limits.device) +
                     ": the least found is " + format_bytes(least.bytes) + " (" + least.from + ")";
  if (least.bytes <= limits.device) {
    text += ", which takes " + format_bytes(least.host) + " of the host's memory";
    if (least.host > limits.host) text += ", and there are " + format_bytes(limits.host);
  }
  return text + "; state, inputs and what " + front.floor.node + " touches are at least " +
         format_bytes(front.floor.bytes);
}

std::string describe(const AutoPlan& plan, const FrontLimits& limits) {
  if (!plan.made) {
    return "the step fits " + format_bytes(limits.device) + " as it was recorded";
  }
  const FrontPoint& point = plan.point();
  const DeviceProfile& profile = *point.options.profile;
  std::string text = point.from + ", " + format_bytes(point.bytes) + " of " +
                     format_bytes(limits.device) +
                     printed(", %+.1f %% predicted (%s)", 100 * plan.made->front.overhead(point),
                             profile.times ? "by the nodes' times" : profile.name.c_str());
  if (point.offloaded > 0) text += ", " + format_bytes(point.host) + " in the host's memory";
  return text + printed("; of %zu plans, %s in %.2f s", plan.made->front.points.size(),
                        plan.made->cached ? "looked up" : "made", plan.made->seconds);
}

std::pair<int64_t, int64_t> largest_bucket(const Task& task, const Config& config,
                                           KernelCache& kernels) {
  const std::vector<int> candidates = task.largest_candidates();
  std::pair<int64_t, int64_t> largest = task.bucket_lengths(candidates[0]);
  if (candidates.size() == 1) return largest;
  int64_t most = 0;
  for (const int candidate : candidates) {
    const auto lengths = task.bucket_lengths(candidate);
    const Program step = record_plan_step(task, config, lengths);
    const int64_t bytes = least_bytes(step, kernels, StateLayout(step));
    if (bytes > most) most = bytes, largest = lengths;
  }
  return largest;
}

namespace {

std::string lower_case(std::string text) {
  for (char& ch : text) ch = char(std::tolower(static_cast<unsigned char>(ch)));
  return text;
}

// "V100 16 GB" is of "Tesla V100-SXM2-16GB, 16 GiB, compute capability 7.0": what stands before the
// capacity decides, and among several the capacity.
std::optional<DeviceProfile> profile_of_card(const std::string& card) {
  double gib = 0;
  if (const size_t comma = card.find(", "); comma != std::string::npos) {
    gib = std::strtod(card.c_str() + comma + 2, nullptr);
  }
  const auto far = [&](const DeviceProfile& p) {
    return std::abs(double(p.capacity) / double(1 << 30) - gib);
  };
  std::optional<DeviceProfile> best;
  for (const std::string& name : profile_names()) {
    if (name == "cpu") continue;
    DeviceProfile profile = load_profile(name);
    std::string words = profile.name;
    if (words.ends_with(" GB")) words.erase(words.rfind(' ', words.size() - 4));
    if (lower_case(card).find(lower_case(words)) == std::string::npos) continue;
    if (!best || far(profile) < far(*best)) best = std::move(profile);
  }
  return best;
}

}  // namespace

DeviceProfile profile_at_hand(const Device& device, std::string* said) {
  const auto say = [&](const std::string& text) {
    if (said) *said = text;
  };
  if (device.accelerator) {
    if (auto profile = profile_of_card(device.accelerator->description())) {
      say("times predicted for " + profile->name);
      return priced_as(std::move(*profile), device.tf32);
    }
    const DeviceProfile papers = load_profile(kDefaultProfile);
    say("no profile in configs/devices is of this card: times predicted for " + papers.name);
    return priced_as(papers, device.tf32);
  }
  if (is_cpu_measured()) {
    say("times predicted for this processor, as pal bench --profile measured it");
    const DeviceProfile whole = load_profile("cpu");
    return device.group ? part_of_ranks(whole, device.group->local_size()) : whole;
  }
  DeviceProfile profile = default_profile();
  profile.link = profile.link_both = 0;
  say("this processor is not measured (pal bench --profile): times predicted for " + profile.name);
  return profile;
}

}  // namespace pal
