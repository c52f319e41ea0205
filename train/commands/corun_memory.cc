// Needs of jobs, the way that is predicted to be best, and its pool.
#include "train/commands/corun_memory.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

// What kernels of more threads may need beside what is planned.
constexpr int64_t kThreadRoom = int64_t(64) << 20;

std::string advice(CorunMode mode) {
  return "; give smaller batches, a job its own memory.budget (--set 1:memory.budget=SIZE)" +
         std::string(mode == CorunMode::shared ? ", or --mode turns" : "");
}

}  // namespace

CorunMemory::CorunMemory(const std::vector<std::unique_ptr<Job>>& jobs, const CorunArgs& args)
    : args_(args), budget_(args.budget), file_(args.out / "budget") {
  const Device device = choose_device(jobs[0]->config().device);
  if (args.mode != CorunMode::unshared) {
    device_ = args.profile.empty() ? default_profile() : load_profile(args.profile);
    pool_ = std::make_shared<SharedPool>(jobs.size(), device.accelerator);
    on_processor_ = !device.accelerator;
  }
  for (const auto& job : jobs) members_.push_back({.job = job.get(), .step = {}, .needs = {}});
  for (Member& m : members_) {
    m.job->set_threads(wanted_threads());
    m.threads = m.job->threads();
    m.keeps_threads = !on_processor_ || m.job->args().config.device.threads->has_value();
  }
}

std::string CorunMemory::name_of_job(JobId job) const {
  return "job " + std::to_string(job + 1) + " (" + members_[size_t(job)].job->args().name + ")";
}

bool CorunMemory::in_turns() const {
  if (args_.mode == CorunMode::turns || args_.mode == CorunMode::minutes) return true;
  return !use_.jobs.empty() && use_.way.kind == CorunWay::Kind::turns;
}

// Side by side each job has its part of the processors, in turns all.
int CorunMemory::wanted_threads() const {
  const int all = cpu_device(0).threads;
  const int jobs = int(present(false).size());
  return in_turns() || jobs < 2 ? all : std::max(1, all / jobs);
}

// The jobs that have not left; `staying`: nor are about to.
CorunMemory::Ids CorunMemory::present(bool staying) const {
  Ids jobs;
  for (size_t j = 0; j < members_.size(); ++j) {
    const Member& m = members_[j];
    if (!m.left && (!staying || m.ends.empty())) jobs.push_back(JobId(j));
  }
  return jobs;
}

void CorunMemory::look_at(size_t j) {
  Member& m = members_[j];
  if (!pool_) {
    m.needs = {.own_bytes = m.job->bytes(), .height = 0, .tallest = {}};
    return;
  }
  m.needs = pool_->needs(JobId(j));
  m.step = m.job->largest_step(device_);
  m.others = m.job->other_steps(device_);
  // Of its own a job has what any of its programs needs.
  m.step.alone_bytes += m.needs.own_bytes - m.step.own_bytes;
  m.step.own_bytes = m.needs.own_bytes;
  pool_->expect(JobId(j), m.needs.own_bytes);
}

int64_t CorunMemory::own_bytes(const Ids& jobs) const {
  int64_t sum = 0;
  for (const JobId j : jobs) sum += members_[size_t(j)].needs.own_bytes;
  return sum;
}

int64_t CorunMemory::tallest(const Ids& jobs) const {
  int64_t most = 0;
  for (const JobId j : jobs) most = std::max(most, members_[size_t(j)].needs.height);
  return most;
}

int64_t CorunMemory::least_bytes(const Ids& jobs) const { return own_bytes(jobs) + tallest(jobs); }

std::string CorunMemory::needs_of(const Ids& jobs) const {
  std::string out;
  for (const JobId j : jobs) {
    const Member& m = members_[size_t(j)];
    out += (out.empty() ? "" : ", ") + name_of_job(j) + " " + format_bytes(m.alone_bytes());
    if (pool_) out += ", of which " + format_bytes(m.needs.own_bytes) + " its own";
  }
  return out;
}

// BudgetError where a job does not fit even alone, or the jobs do not fit even in turns.
void CorunMemory::check_least(const Ids& jobs) const {
  for (const JobId j : jobs) {
    const Member& m = members_[size_t(j)];
    if (m.alone_bytes() <= budget_ || !pool_) continue;
    throw BudgetError("--budget: " + name_of_job(j) + " alone needs " +
                      format_bytes(m.alone_bytes()) + " (" + m.needs.tallest + "), " +
                      format_bytes(m.alone_bytes() - budget_) + " more than " +
                      format_bytes(budget_) + "; the jobs: " + needs_of(jobs) + advice(args_.mode));
  }
  const int64_t least = least_bytes(jobs);
  if (least <= budget_) return;
  if (!pool_) {
    throw BudgetError("the jobs need " + format_bytes(least) + ", each with its own memory, " +
                      format_bytes(least - budget_) + " over the budget of " +
                      format_bytes(budget_) + ": " + needs_of(jobs) +
                      "; give a larger --budget, smaller batches, or a job its own " +
                      "memory.budget (--set 1:memory.budget=SIZE)");
  }
  throw BudgetError("--budget: " + format_bytes(budget_) + " is " + format_bytes(least - budget_) +
                    " short of what the jobs need in mode " + name_of(args_.mode) + " (" +
                    format_bytes(least) + "): " + needs_of(jobs) + advice(args_.mode));
}

// Kernels of more threads may need more: room for them, as far as there is any.
void CorunMemory::begin_use(PoolUse use) {
  PoolUse before = std::exchange(use_, std::move(use));
  const auto rises = [&](JobId j) {
    const Member& m = members_[size_t(j)];
    return !m.keeps_threads && m.threads < wanted_threads();
  };
  if (std::any_of(use_.jobs.begin(), use_.jobs.end(), rises)) {
    const int64_t room = std::min(budget_ - own_bytes(use_.jobs), 2 * use_.bytes + kThreadRoom);
    use_.bytes = std::max(use_.bytes, room / kAlignment * kAlignment);
  }
  try {
    pool_->use(use_);
  } catch (const BudgetError&) {
    use_ = std::move(before);
    if (compiling_ == 0) throw;  // else whoever compiles needs more by now, and replans in the end
  }
}

void CorunMemory::choose() {
  for (size_t j = 0; j < members_.size(); ++j) look_at(j);
  const Ids all = present(true);
  check_least(all);
  if (!pool_) return;
  const auto use = best_of(all);
  if (!use && args_.goal == CorunGoal::fair && args_.mode == CorunMode::shared) {
    throw BudgetError("--goal fair: beside each other one of the jobs is predicted to be slower " +
                      std::string("than in turns, in whatever way within ") +
                      format_bytes(budget_) + "; give --goal total, or --mode auto");
  }
  if (!use) {
    throw BudgetError("--budget: " + format_bytes(budget_) + " leaves no room for two steps at " +
                      "once: " + needs_of(all) + advice(args_.mode));
  }
  begin_use(*use);
  for (size_t j = 0; j < members_.size(); ++j) change_threads(j, wanted_threads());
  begin_trial();
}

void CorunMemory::change_threads(size_t j, int threads) {
  Member& m = members_[j];  // its threads are changed by its own thread alone
  const int before = m.threads;
  if (before == threads || m.keeps_threads || !pool_) return;
  bool keeps = false;
  ++compiling_;
  try {
    keeps = !m.job->change_threads(threads);
  } catch (const BudgetError&) {
    keeps = true;
    m.job->change_threads(before);
  }
  const std::lock_guard lock(mutex_);
  --compiling_;
  m.keeps_threads = keeps;
  if (!keeps) m.threads = threads;
  look_at(j);
  replan(in_turns());
}

// For the jobs that are there. `stay_in_turns`: as they are now.
void CorunMemory::replan(bool stay_in_turns) {
  const Ids all = present(false), staying = present(true);
  if (all.empty() || !pool_) return;
  // Whoever is about to end still needs what its programs need.
  if (stay_in_turns || staying.size() < all.size()) return begin_use(turns_of(all));
  // At once, if need be; a better way takes a while to find.
  if (own_bytes(all) + use_.bytes > budget_) begin_use(turns_of(all));
  const auto better = best_of(all);
  begin_use(better ? *better : turns_of(all));
}

// Side by side the times of a job's nodes are measured once with its threads; when those of all are
// known, the way is chosen anew. By the job's thread, between its steps.
void CorunMemory::measure(size_t j) {
  constexpr int kPatience = 60;  // steps; where the largest bucket is rare, as predicted
  const Ids all = present(false);
  const auto is_measured = [&](JobId i) {
    const Member& m = members_[size_t(i)];
    return m.measured_threads == threads_beside(m, all.size());
  };
  Member& m = members_[j];
  if (!pool_ || !on_processor_ || in_turns() || all.size() < 2 || is_measured(JobId(j))) return;
  if (m.threads != threads_beside(m, all.size())) return;
  const bool last = ++m.unmeasured_steps > kPatience;
  const auto times = m.job->measured_times(last);
  if (!times && !last) return;
  m.node_ns = times.value_or(std::vector<int64_t>{});
  m.measured_threads = m.threads, m.unmeasured_steps = 0;
  if (!std::all_of(all.begin(), all.end(), is_measured)) return;
  const double before = use_.way.total;
  replan(false);
  log_info("measured the jobs' nodes: " + std::string(to_string(use_.way.kind)) + ", predicted " +
           fixed(use_.way.total, 2) + " times the steps of taking turns (before " +
           fixed(before, 2) + ")");
  begin_trial();
}

// What is predicted to do more may do less.
void CorunMemory::begin_trial() {
  trial_.reset();
  if (args_.mode == CorunMode::automatic && !in_turns() && present(false).size() > 1) {
    trial_.emplace(args_.goal);
  }
}

void CorunMemory::look_at_trial() {
  if (!trial_ || trial_->over()) return;
  std::vector<JobDone> done;
  bool ready = true;
  for (const JobId j : present(false)) {
    const Member& m = members_[size_t(j)];
    const PoolStats stats = pool_->stats(j);
    done.push_back({stats.steps, stats.worked_seconds, stats.predicted_ms});
    ready &= m.keeps_threads || m.threads == wanted_threads();
  }
  const bool in_turns = trial_->in_turns();
  trial_->look(done, seconds_since(begin_), ready);
  if (trial_->in_turns() != in_turns) replan(false);
  if (trial_->over()) log_info(trial_->line());
}

void CorunMemory::set_budget(int64_t budget) {
  const std::string change = format_bytes(budget_) + " -> " + format_bytes(budget);
  budget_ = budget;
  Ids staying = present(true);
  while (!staying.empty() && least_bytes(staying) > budget_) {
    const auto most = std::max_element(staying.begin(), staying.end(), [&](JobId a, JobId b) {
      return members_[size_t(a)].alone_bytes() < members_[size_t(b)].alone_bytes();
    });
    Member& m = members_[size_t(*most)];
    m.ends =
        "needs " + format_bytes(m.alone_bytes()) + " of the budget, which is " +
        format_bytes(budget_) + " by now" +
        (m.alone_bytes() > budget_ ? ": " + format_bytes(m.alone_bytes() - budget_) + " are missing"
                                   : ", beside the other jobs") +
        "; saved, go on with --resume and a larger --budget";
    staying.erase(most);
  }
  trial_.reset();
  replan(false);
  begin_trial();
  log_info("budget " + change +
           (pool_ ? ": " + std::string(to_string(use_.way.kind)) + ", a pool of " +
                        format_bytes(use_.bytes)
                  : ""));
}

bool CorunMemory::before_step(size_t j) {
  int threads = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<int64_t> budget = file_.changed();
    if (budget && *budget != budget_) {
      const int64_t before = budget_;
      try {
        set_budget(*budget);
      } catch (const BudgetError& error) {  // the machine has no such pool
        log_warn(file_.name() + ": " + error.what() + "; the budget stays as it was");
        budget_ = before;
        replan(true);
      }
    }
    if (!members_[j].ends.empty()) return false;
    measure(j);
    look_at_trial();
    threads = wanted_threads();
  }
  const int before = members_[j].threads;
  change_threads(j, threads);
  if (const int now = members_[j].threads; now != before) {
    log_info("threads " + std::to_string(before) + " -> " + std::to_string(now));
  }
  return true;
}

std::string CorunMemory::why_ended(size_t j) const {
  const std::lock_guard lock(mutex_);
  return members_[j].ends;
}

void CorunMemory::left(size_t j) {
  const std::lock_guard lock(mutex_);
  members_[j].left = true;
  trial_.reset();
  replan(false);
  begin_trial();
}

}  // namespace pal
