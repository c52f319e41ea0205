// Which way jobs share: turns, or the one that is predicted to do most.
#include <algorithm>
#include <utility>

#include "memory/share/pairs_plan.h"
#include "memory/share/zico_plan.h"
#include "train/commands/corun_memory.h"

namespace pal {
namespace {

// Programs of a job beside its largest step that may be on a circle.
constexpr size_t kMostOthers = 15;

}  // namespace

PoolUse CorunMemory::turns_of(const Ids& jobs) const {
  std::vector<const StepShape*> steps;
  for (const JobId j : jobs) steps.push_back(&members_[size_t(j)].step);
  PoolUse use{.way = {.kind = CorunWay::Kind::turns, .pool_bytes = tallest(jobs)}, .jobs = jobs};
  use.way.rate = rates_in_turns(steps);
  use.bytes = use.way.pool_bytes;
  if (args_.mode == CorunMode::minutes) use.slice_seconds = 60 * args_.minutes;
  return use;
}

// The way of the mode that is predicted to do most; nothing where it needs more than there is.
std::optional<PoolUse> CorunMemory::best_of(const Ids& jobs) {
  auto shapes = std::make_shared<std::vector<StepShape>>();
  shapes->reserve(jobs.size() * (1 + kMostOthers));  // pointers to them stay
  for (const JobId j : jobs) shapes->push_back(step_beside(members_[size_t(j)], jobs.size()));
  std::vector<const StepShape*> pointers;
  for (const StepShape& shape : *shapes) pointers.push_back(&shape);
  turns_ = rates_in_turns(pointers);
  if (args_.mode == CorunMode::turns || args_.mode == CorunMode::minutes) return turns_of(jobs);
  if (trial_ && trial_->in_turns()) return turns_of(jobs);
  const auto way = best_way(pointers);
  if (!way) {
    const bool in_turns =  // the planned scheduler has these among its ways
        args_.scheduler == CorunScheduler::zico && args_.mode == CorunMode::automatic;
    return in_turns ? turns_of(jobs) : std::optional<PoolUse>();
  }
  if (way->kind == CorunWay::Kind::turns) return turns_of(jobs);
  PoolUse use{.way = *way, .jobs = jobs};
  add_others(use, *shapes);
  use.shapes = std::move(shapes);
  use.bytes = std::max(use.way.pool_bytes, tallest(jobs));
  if (way->kind == CorunWay::Kind::beside) fit_parts(use);
  if (way->kind == CorunWay::Kind::groups) {
    for (const StepShape* step : pointers) {
      use.parts.push_back(align_up(step->alone_bytes - step->own_bytes));
    }
  }
  return use;
}

// Other programs, those first that have run most so far, on the circles for the largest steps.
void CorunMemory::add_others(PoolUse& use, std::vector<StepShape>& shapes) const {
  std::vector<std::vector<const StepShape*>> others;
  for (const JobId j : use.jobs) {
    std::vector<std::pair<int64_t, const StepShape*>> by_steps;
    for (const StepShape& other : members_[size_t(j)].others) {
      by_steps.emplace_back(-pool_->steps_of(j, other), &other);
    }
    std::stable_sort(by_steps.begin(), by_steps.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    by_steps.resize(std::min(by_steps.size(), kMostOthers));
    auto& of_job = others.emplace_back();
    for (const auto& [steps, other] : by_steps) of_job.push_back(&shapes.emplace_back(*other));
  }
  if (use.way.kind != CorunWay::Kind::groups) {
    return add_programs(use.way, others, (budget_ - own_bytes(use.jobs)) / kAlignment * kAlignment);
  }
  for (size_t g = 0; g < use.way.groups.size(); ++g) {
    std::vector<std::vector<const StepShape*>> of_group;
    for (const JobId j : use.way.members[g]) of_group.push_back(others[size_t(j)]);
    add_programs(use.way.groups[g], of_group, use.way.groups[g].pool_bytes);
  }
}

std::optional<CorunWay> CorunMemory::best_way(const std::vector<const StepShape*>& steps) const {
  const bool shared = args_.mode == CorunMode::shared || trial_;
  if (args_.scheduler == CorunScheduler::zico) {
    const auto way = zico_within(steps, budget_);
    const bool slower = way && way->total <= 1;
    return !way || (slower && !shared) ? std::nullopt : way;
  }
  return best_way_within(steps, budget_, args_.goal, shared, {.can_prefer = !on_processor_});
}

// Beside each other each job has what its largest step needs, and what all its programs need where
// there is so much.
void CorunMemory::fit_parts(PoolUse& use) const {
  int64_t spare = budget_ - own_bytes(use.jobs);
  for (const JobId j : use.jobs) {
    const StepShape& step = members_[size_t(j)].step;
    use.parts.push_back(align_up(step.alone_bytes - step.own_bytes));
    spare -= use.parts.back();
  }
  int64_t sum = 0;
  for (size_t i = 0; i < use.jobs.size(); ++i) {
    const int64_t more = members_[size_t(use.jobs[i])].needs.height - use.parts[i];
    if (more > 0 && align_up(more) <= spare)
      use.parts[i] += align_up(more), spare -= align_up(more);
    sum += use.parts[i];
  }
  use.bytes = std::max(use.bytes, sum);
}

// Beside others a job of the processor has its part of the threads, and no more.
int CorunMemory::threads_beside(const Member& m, size_t jobs) const {
  return m.keeps_threads ? m.threads : std::max(1, cpu_device(0).threads / int(jobs));
}

StepShape CorunMemory::step_beside(const Member& m, size_t jobs) const {
  if (!on_processor_) return m.step;
  const int threads = threads_beside(m, jobs);
  const double share = std::min(1.0, double(threads) / cpu_device(0).threads);
  const bool measured =
      m.measured_threads == threads && m.node_ns.size() == size_t(m.step.moments() / 2);
  StepShape step =
      with_share(m.step, device_, share, measured ? m.node_ns : std::vector<int64_t>{});
  if (m.keeps_threads) step.alone_ms = 0;  // alone it has no more
  return step;
}

}  // namespace pal
