// Waiting, and the change from one rule to another.
#include "memory/run/shared_pool.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

// A job that is late for its next step (it loads, saves, logs) holds nothing. Who waits for it
// longer than its own last step took goes on without it.
constexpr double kLeastPatience = 0.02;  // seconds

bool same_buffers(const StepShape& a, const StepShape& b) {
  return std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(),
                    [](const SharableBuffer& x, const SharableBuffer& y) {
                      return x.bytes == y.bytes && x.storage == y.storage &&
                             x.life.begin == y.life.begin && x.life.end == y.life.end;
                    });
}

}  // namespace

SharedPool::SharedPool(CorunWay way, size_t jobs, int64_t bytes, std::vector<int64_t> parts)
    : way_(std::move(way)),
      parts_(std::move(parts)),
      region_bytes_(region_bytes_of(bytes)),
      members_(jobs) {
  arena_.reserve(Space::device, bytes);
  if (way_.kind == CorunWay::Kind::turns) gate_ = turn_gate();
  if (way_.kind == CorunWay::Kind::beside) gate_ = open_gate();
}

size_t SharedPool::add(JobId job, const StepShape& shape, const Plan& plan) {
  std::lock_guard lock(mutex_);
  Member& m = at(job);
  PoolOffsets offset;
  int64_t height = 0, limit = bytes(), base = 0;
  const bool planned = way_.kind == CorunWay::Kind::circle &&
                       same_buffers(shape, *way_.circle.jobs[size_t(job)].shape);
  if (planned) {
    offset = way_.placement.offset[size_t(job)];
    m.on_circle = m.programs.size();
    height = way_.placement.height;
  } else if (way_.kind == CorunWay::Kind::turns || way_.kind == CorunWay::Kind::beside) {
    if (way_.kind == CorunWay::Kind::beside) {
      base = std::accumulate(parts_.begin(), parts_.begin() + job, int64_t(0));
      limit = parts_[size_t(job)];
    }
    for (const SharableBuffer& b : shape.buffers) {
      offset.push_back(base + plan.offset[b.storage] - plan.device().transients_begin());
      height = std::max(height, offset.back() - base + b.bytes);
    }
  } else {
    height = place_longest_first(shape, offset);
    for (size_t i = 0; job % 2 == 1 && i < offset.size(); ++i) {
      offset[i] = bytes() - offset[i] - shape.buffers[i].bytes;
    }
  }
  if (height > limit) {
    throw BudgetError(shape.name + " alone needs " + format_bytes(height) +
                      " of the memory that the jobs share, " + format_bytes(height - limit) +
                      " more than there is: raise --budget, or give it a smaller batch");
  }
  m.programs.push_back(region_program(shape, offset, region_bytes_));
  m.offset.push_back(std::move(offset));
  is_current_ = false;
  return m.programs.size() - 1;
}

const PoolOffsets& SharedPool::offset(JobId job, size_t program) const {
  return members_[size_t(job)].offset[program];
}

bool SharedPool::all_on_circle() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) {
    return m.left || (m.on_circle && m.program == *m.on_circle);
  });
}

bool SharedPool::any_inside() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.inside; });
}

// With nobody inside a step.
void SharedPool::make_gate() {
  is_circle_ = way_.kind == CorunWay::Kind::circle && all_on_circle();
  if (is_circle_) {
    gate_ = circle_gate(way_.circle, way_.waits);
  } else {
    std::vector<std::vector<RegionProgram>> programs;
    for (const Member& m : members_) programs.push_back(m.programs);
    gate_ = ticket_gate(std::move(programs), int32_t(bytes() / region_bytes_ + 1));
  }
  for (size_t j = 0; j < members_.size(); ++j) {
    if (members_[j].left) gate_->leave(JobId(j));
  }
  is_current_ = true;
}

void SharedPool::use_right_gate(std::unique_lock<std::mutex>& lock, JobId job) {
  if (way_.kind == CorunWay::Kind::turns || way_.kind == CorunWay::Kind::beside) return;
  const auto is_right = [&] {
    return is_current_ && is_circle_ == (way_.kind == CorunWay::Kind::circle && all_on_circle());
  };
  if (is_right()) return;
  // The rule changes when all are between steps. Whoever is inside one need not wait for this job
  // meanwhile: it holds nothing.
  if (gate_) gate_->leave(job), is_current_ = false;
  changed_.notify_all();
  changed_.wait(lock, [&] { return is_right() || !any_inside(); });
  if (is_right()) return;
  make_gate();
  for (Member& m : members_) ++m.stats.switches;
  changed_.notify_all();
}

void SharedPool::begin_step(JobId job, size_t program) {
  std::unique_lock lock(mutex_);
  Member& m = at(job);
  m.program = program;
  use_right_gate(lock, job);
  m.inside = true, m.begun = Clock::now();
  gate_->begin_step(job, program);
}

void SharedPool::ask(JobId job, int64_t moment) {
  std::unique_lock lock(mutex_);
  if (gate_->may_pass(job, moment)) return;
  Member& m = at(job);
  const Clock::time_point begin = Clock::now();
  ++m.stats.waits;
  const auto may_go_on = [&] { return gate_->may_pass(job, moment); };
  while (true) {
    const auto patience = std::chrono::duration<double>(std::max(kLeastPatience, m.step_seconds));
    if (changed_.wait_for(lock, patience, may_go_on)) break;
    if (!is_circle_) continue;
    for (size_t j = 0; j < members_.size(); ++j) {
      if (members_[j].inside || members_[j].left) continue;
      gate_->leave(JobId(j)), is_current_ = false;  // until all are between steps
    }
  }
  m.stats.waited_seconds += seconds_since(begin);
}

void SharedPool::report(JobId job, int64_t moment) {
  std::lock_guard lock(mutex_);
  gate_->passed(job, moment);
  changed_.notify_all();
}

void SharedPool::end_step(JobId job) {
  std::lock_guard lock(mutex_);
  Member& m = at(job);
  if (!m.inside) return;
  gate_->end_step(job);
  m.inside = false, m.step_seconds = seconds_since(m.begun);
  changed_.notify_all();
}

void SharedPool::leave(JobId job) {
  std::lock_guard lock(mutex_);
  Member& m = at(job);
  m.inside = false, m.left = true;
  if (gate_) gate_->leave(job);
  changed_.notify_all();
}

PoolStats SharedPool::stats(JobId job) const {
  std::lock_guard lock(mutex_);
  return members_[size_t(job)].stats;
}

int64_t SharedPlan::own_bytes(const Storages& storages, const Plan& plan) {
  int64_t bytes = plan.device().transients_begin();
  for (const Storage& storage : storages.list) {
    if (storage.space == Space::device && storage.is_transient() && storage.output) {
      bytes += align_up(storage.bytes);
    }
  }
  return bytes;
}

SharedPlan::SharedPlan(const Storages& storages, const Plan& plan, const StepShape& shape,
                       Arena& arena, SharedPool& pool, JobId job)
    : storages_(storages),
      arena_(arena),
      pool_(pool),
      job_(job),
      program_(pool.add(job, shape, plan)),
      offset_(plan.offset),
      pooled_(plan.offset.size(), 0) {
  const PoolOffsets& offset = pool.offset(job, program_);
  for (size_t i = 0; i < offset.size(); ++i) {
    pooled_[shape.buffers[i].storage] = 1;
    offset_[shape.buffers[i].storage] = offset[i];
  }
  int64_t end = plan.device().transients_begin();
  for (StorageId s : storages.list.ids()) {
    const Storage& storage = storages[s];
    if (storage.space != Space::device || !storage.is_transient() || pooled_[s]) continue;
    offset_[s] = end;
    if (storage.output) end += align_up(storage.bytes);
  }
  arena.reserve(Space::device, end);
  arena.reserve(Space::host, plan.host().bytes);
}

void SharedPlan::begin_step() {
  pool_.begin_step(job_, program_);
  next_ask_ = next_report_ = 0;
  before_node(0, kComputeQueue);  // other queues may run ahead of the first node of compute
}

void SharedPlan::end_step() { pool_.end_step(job_); }

void SharedPlan::before_node(NodeId node, QueueId queue) {
  if (queue != kComputeQueue) return;
  const auto& asks = pool_.asks(job_);
  while (next_ask_ < asks.size() && asks[next_ask_] <= start_of(node)) {
    pool_.ask(job_, asks[next_ask_++]);
  }
}

void SharedPlan::after_node(NodeId node, QueueId queue) {
  if (queue != kComputeQueue) return;
  const auto& reports = pool_.reports(job_);
  while (next_report_ < reports.size() && reports[next_report_] <= done_of(node)) {
    pool_.report(job_, reports[next_report_++]);
  }
}

std::byte* SharedPlan::address(StorageId id) const {
  return (pooled_[id] ? pool_.base() : arena_.base(storages_[id].space)) + offset_[id];
}

std::byte* SharedPlan::outside_step(StorageId id) {
  if (pooled_[id]) throw ProgramError("a storage of the pool has no address outside a step");
  return address(id);
}

int64_t SharedPlan::capacity() const {
  return arena_.bytes(Space::device) + arena_.bytes(Space::host);
}

}  // namespace pal
