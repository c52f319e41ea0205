// Programs that come and go, steps, and waiting.
#include "memory/run/shared_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

// A job that is late for its next step (it loads, saves, logs) holds nothing. Who waits for it
// longer than its own last step took goes on without it.
constexpr double kLeastPatience = 0.02;  // seconds
// A gate that goes by a clock is asked again no sooner than after so long.
constexpr double kLeastSleep = 1e-4;

PoolUse use_of(CorunWay way, size_t jobs, int64_t bytes, std::vector<int64_t> parts) {
  PoolUse use{.way = std::move(way), .jobs = {}, .bytes = bytes, .parts = std::move(parts)};
  for (size_t j = 0; j < jobs; ++j) use.jobs.push_back(JobId(j));
  return use;
}

// Of a job that leaves: where its device has failed, all others end too.
void synchronize(Accelerator& queues) {
  try {
    queues.synchronize();
  } catch (const DeviceError&) {  // NOLINT(bugprone-empty-catch)
  }
}

BudgetError too_tall(const std::string& name, int64_t height, int64_t limit) {
  return BudgetError(name + " alone needs " + format_bytes(height) +
                     " of the memory that the jobs share, " + format_bytes(height - limit) +
                     " more than there is: raise --budget, or give it a smaller batch");
}

}  // namespace

SharedPool::SharedPool(CorunWay way, size_t jobs, int64_t bytes, std::vector<int64_t> parts,
                       std::shared_ptr<Accelerator> accelerator)
    : SharedPool(jobs, std::move(accelerator)) {
  use(use_of(std::move(way), jobs, bytes, std::move(parts)));
}

SharedPool::~SharedPool() {
  if (block_) accelerator_->release(Space::device, block_);
}

void SharedPool::use(PoolUse use) {
  std::lock_guard lock(mutex_);
  for (const JobId job : use.jobs) {
    for (const Added& program : at(job).programs) {
      if (program.height > use.bytes) throw too_tall(program.shape.name, program.height, use.bytes);
    }
  }
  next_ = std::move(use);
  if (!any_inside()) settle();
  changed_.notify_all();
}

size_t SharedPool::add(JobId job, const StepShape& shape, const Plan& plan, int64_t own_bytes) {
  std::lock_guard lock(mutex_);
  Member& m = at(job);
  Added added{.shape = shape, .planned = {}, .height = 0};
  for (const SharableBuffer& b : shape.buffers) {
    added.planned.push_back(plan.offset[b.storage] - plan.device().transients_begin());
    added.height = std::max(added.height, added.planned.back() + b.bytes);
  }
  PoolOffsets other;
  const int64_t longest_first = place_longest_first(shape, other);
  if (longest_first < added.height) added.planned = std::move(other), added.height = longest_first;
  const int64_t there = next_ ? std::min(next_->bytes, use_.bytes) : use_.bytes;
  if (in_use_ && added.height > there) throw too_tall(shape.name, added.height, there);
  if (m.own_limit && own_bytes > *m.own_limit) {
    throw BudgetError(shape.name + " needs " + format_bytes(own_bytes) +
                      " for its state, inputs and outputs, " +
                      format_bytes(own_bytes - *m.own_limit) +
                      " more than the programs that were planned before the start: raise --budget");
  }
  m.own_bytes = std::max(m.own_bytes, own_bytes);
  m.programs.push_back(std::move(added));
  if (in_use_) place(job, m.programs.size() - 1);
  is_current_ = false;
  return m.programs.size() - 1;
}

void SharedPool::attach(JobId job, const std::shared_ptr<Accelerator>& queues) {
  std::lock_guard lock(mutex_);
  Member& m = at(job);
  if (m.queues == queues) return;
  m.queues = queues;
  m.events = queues ? std::make_unique<PassedEvents>(queues) : nullptr;
}

void SharedPool::forget(JobId job) {
  std::lock_guard lock(mutex_);
  Member& m = at(job);
  m.programs.clear(), m.on_circle.clear(), m.program = 0, m.own_bytes = 0;
  is_current_ = false;
}

JobNeeds SharedPool::needs(JobId job) const {
  std::lock_guard lock(mutex_);
  JobNeeds needs{.own_bytes = at(job).own_bytes, .height = 0, .tallest = {}};
  for (const Added& program : at(job).programs) {
    if (program.height > needs.height)
      needs.height = program.height, needs.tallest = program.shape.name;
  }
  return needs;
}

void SharedPool::expect(JobId job, int64_t own_bytes) {
  std::lock_guard lock(mutex_);
  at(job).own_limit = own_bytes;
}

const PoolOffsets& SharedPool::offset(JobId job, size_t program) const {
  std::lock_guard lock(mutex_);
  return at(job).programs[program].offset;
}

PoolOffsets SharedPool::offset_of(JobId job, const StepShape& shape) const {
  std::lock_guard lock(mutex_);
  for (const Added& program : at(job).programs) {
    if (program.shape.buffers == shape.buffers) return program.offset;
  }
  return {};
}

int64_t SharedPool::steps_of(JobId job, const StepShape& shape) const {
  std::lock_guard lock(mutex_);
  for (const Added& program : at(job).programs) {
    if (program.shape.buffers == shape.buffers) return program.steps;
  }
  return 0;
}

int64_t SharedPool::resident() const {
  std::lock_guard lock(mutex_);
  return accelerator_ ? block_bytes_ : pages_.resident();
}

// The job's compute queue goes on when the device has done what the others have passed.
void SharedPool::wait_on_device(JobId job, const std::vector<PassedMoment>& others) {
  Member& m = at(job);
  m.behind.resize(use_.jobs.size());
  for (const PassedMoment& other : others) {
    PassedMoment& behind = m.behind[size_t(other.job)];
    if (std::tie(other.step, other.moment) <= std::tie(behind.step, behind.moment)) continue;
    behind = other;
    const Member& o = at(use_.jobs[size_t(other.job)]);
    const Accelerator::Event event = o.events ? o.events->event(other.step, other.moment) : nullptr;
    if (event) m.queues->wait(kComputeQueue, event);
  }
}

void SharedPool::wait_at_barrier(JobId job) {
  Member& m = at(job);
  if (m.seen == barrier_) return;
  m.seen = barrier_;
  for (const Member& o : members_) {
    const Accelerator::Event event = &o != &m && o.events ? o.events->end_of_last() : nullptr;
    if (event) m.queues->wait(kComputeQueue, event);
  }
}

bool SharedPool::is_turn_of(JobId job) {
  if (use_.slice_seconds == 0) return true;
  // However short its turn, a job that is there takes a step of it.
  const bool over = Clock::now() >= turn_ends_ && (holder_ != job || holder_stepped_);
  if (holder_ >= 0 && over && !at(holder_).inside) pass_turn(holder_);
  if (holder_ < 0) pass_turn(job - 1);
  return holder_ == job;
}

// To the next job that takes part, `from` itself if there is none.
void SharedPool::pass_turn(JobId from) {
  const auto jobs = JobId(members_.size());
  holder_ = -1, holder_stepped_ = false;
  for (JobId i = 1; i <= jobs && holder_ < 0; ++i) {
    const JobId next = (from + i + jobs) % jobs;
    if (!at(next).left && at(next).slot >= 0) holder_ = next;
  }
  turn_ends_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(use_.slice_seconds));
  changed_.notify_all();
}

bool SharedPool::may_enter(JobId job) {
  if (!is_right() || !is_turn_of(job)) return false;
  return alone_.empty() || (alone_.front() == job && !any_inside());
}

void SharedPool::begin_step(JobId job, size_t program) {
  if (const auto& events = at(job).events) events->wait_for_all_but_last();
  std::unique_lock lock(mutex_);
  Member& m = at(job);
  m.program = program;
  if (!in_use_) throw ProgramError("a pool that is not yet in use");
  const Clock::time_point begin = Clock::now();
  bool waited = false, asked_alone = false;
  while (true) {
    // Others may have gone on without it, also while it waits here.
    if (std::exchange(m.late, false)) is_current_ = false;
    // Whoever is inside a step need not wait for this job meanwhile: it holds nothing. What is
    // asked for is done when all are between steps.
    if (!is_right() && gate_ && m.slot >= 0) {
      gate_->leave(slot(job));
      if (!has_one_rule(group_of(job))) is_current_ = false;
      changed_.notify_all();
    }
    if (!is_right() && !any_inside()) {
      settle();
      changed_.notify_all();
    }
    if (m.slot < 0) throw ProgramError("a job that has left the pool begins a step");
    if (is_right() && m.programs[program].alone && !asked_alone) {
      alone_.push_back(job), asked_alone = true;
    }
    if (asked_alone && is_right() && !m.programs[program].alone) {
      std::erase(alone_, job), asked_alone = false;  // the pool is used otherwise by now
      changed_.notify_all();
    }
    if (may_enter(job)) break;
    waited = true;
    if (use_.slice_seconds > 0 && Clock::now() < turn_ends_) {
      changed_.wait_until(lock, turn_ends_);
    } else {
      changed_.wait(lock);
    }
  }
  if (waited) ++m.stats.waits, m.stats.waited_seconds += seconds_since(begin);
  m.inside = true, m.waited_seconds = 0, m.begun = Clock::now();
  if (holder_ == job) holder_stepped_ = true;
  look_at_clock();
  gate_->begin_step(slot(job), group_of(job).is_circle ? m.on_circle.at(program) : program);
  changed_.notify_all();  // that it is this program may be what somebody waits for
  if (!m.events) return;
  if (m.programs[program].alone) ++barrier_;
  wait_at_barrier(job);
  m.events->begin_step(gate_->reports(slot(job)));
}

void SharedPool::ask(JobId job, int64_t moment) {
  std::unique_lock lock(mutex_);
  wait_in_thread(job, moment, lock);
  if (!at(job).events) return;
  others_.clear();
  gate_->after(slot(job), moment, others_);
  wait_on_device(job, others_);
}

void SharedPool::wait_in_thread(JobId job, int64_t moment, std::unique_lock<std::mutex>& lock) {
  const auto may_go_on = [&] {
    if (zico_) look_at_clock();
    return gate_->may_pass(slot(job), moment);
  };
  if (may_go_on()) return;
  Member& m = at(job);
  const Clock::time_point begin = Clock::now();
  ++m.stats.waits;
  while (true) {
    const double again = std::max(gate_->again_ms(slot(job)) / 1000, kLeastSleep);
    const double patience = std::max(kLeastPatience, m.step_seconds);
    if (changed_.wait_for(lock, std::chrono::duration<double>(std::min(again, patience)),
                          may_go_on)) {
      break;
    }
    if (!group_of(job).is_circle) continue;
    for (const JobId j : group_of(job).jobs) {
      Member& late = at(j);
      if (late.inside || late.left || late.slot < 0) continue;
      gate_->leave(JobId(late.slot)), late.late = true;  // until it begins a step
    }
  }
  const double waited = seconds_since(begin);
  m.stats.waited_seconds += waited, m.waited_seconds += waited;
}

void SharedPool::report(JobId job, int64_t moment) {
  std::unique_lock lock(mutex_);
  if (const auto& events = at(job).events) {
    events->pass(moment);
    if (follows_device()) {
      lock.unlock();
      events->wait_for_passed();
      lock.lock();
    }
  }
  look_at_clock();
  gate_->passed(slot(job), moment);
  changed_.notify_all();
}

void SharedPool::end_step(JobId job) {
  std::unique_lock lock(mutex_);
  Member& m = at(job);
  if (!m.inside) return;
  if (m.events) {
    m.events->end_step();
    if (m.programs[m.program].alone) ++barrier_;
    if (is_in_turns(job) || follows_device()) {
      lock.unlock();
      m.events->wait_for_last();
      lock.lock();
    }
  }
  look_at_clock();
  gate_->end_step(slot(job));
  count_shift(job);
  m.inside = false, m.step_seconds = seconds_since(m.begun) - m.waited_seconds;
  ++m.programs[m.program].steps;
  ++m.stats.steps, m.stats.worked_seconds += m.step_seconds;
  m.stats.predicted_ms += m.programs[m.program].shape.ms();
  std::erase(alone_, job);
  if (next_ && !any_inside()) settle();
  changed_.notify_all();
}

void SharedPool::leave(JobId job) {
  Member& m = at(job);
  if (m.queues) synchronize(*m.queues);
  std::lock_guard lock(mutex_);
  m.inside = false, m.left = true;
  m.events.reset(), m.queues.reset();
  std::erase(alone_, job);
  if (gate_ && m.slot >= 0) gate_->leave(slot(job));
  if (holder_ == job) pass_turn(job);
  if (next_ && !any_inside()) settle();
  changed_.notify_all();
}

PoolStats SharedPool::stats(JobId job) const {
  std::lock_guard lock(mutex_);
  return members_[size_t(job)].stats;
}

}  // namespace pal
