// How a pool is used: its bytes, where programs lie in it, and by which rule jobs go.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "memory/run/shared_pool.h"
#include "memory/share/zico_plan.h"

namespace pal {

// With nobody inside a step. What lay in the pool is lost.
void SharedPool::commit(int64_t bytes, int64_t addresses) {
  if (!accelerator_) return pages_.commit(bytes, addresses);
  if (bytes == block_bytes_) return;
  for (Member& m : members_) {
    if (m.events) m.events->wait_for_last();
  }
  const int64_t had = block_bytes_;
  const auto release = [&] {
    if (block_) accelerator_->release(Space::device, std::exchange(block_, nullptr));
    block_bytes_ = 0;
  };
  release();
  try {
    block_ = accelerator_->allocate(Space::device, bytes), block_bytes_ = bytes;
  } catch (const BudgetError&) {
    if (had > 0) block_ = accelerator_->allocate(Space::device, had, true), block_bytes_ = had;
    ++gate_version_;  // what was recorded is of another place
    throw;
  }
}

// Where a program lies under the present use.
void SharedPool::place(JobId job, size_t program) {
  Member& m = at(job);
  Added& added = m.programs[program];
  added.alone = false;
  if (m.slot < 0) return;
  const size_t slot = size_t(m.slot);
  const CorunWay& way = use_.way;
  switch (way.kind) {
    case CorunWay::Kind::turns: added.offset = added.planned; break;
    case CorunWay::Kind::beside: {
      added.offset = added.planned;
      added.alone = added.height > use_.parts[slot];
      const auto first = use_.parts.begin();
      const int64_t base = std::accumulate(first, first + m.slot, int64_t(0));
      for (int64_t& offset : added.offset) offset += added.alone ? 0 : base;
      break;
    }
    case CorunWay::Kind::circle:
      if (added.shape.buffers == way.circle.jobs[slot].shape->buffers) {
        added.offset = way.placement.offset[slot];
        m.on_circle = program;
        break;
      }
      [[fallthrough]];
    case CorunWay::Kind::zico:
    case CorunWay::Kind::tickets: {
      const bool zico = way.kind == CorunWay::Kind::zico;
      // The longest-lived first is better for others, and may be taller than the plan.
      const int64_t height = zico ? place_for_zico(added.shape, added.offset)
                                  : place_longest_first(added.shape, added.offset);
      if (height > use_.bytes) added.offset = added.planned;
      for (size_t i = 0; slot % 2 == 1 && i < added.offset.size(); ++i) {
        added.offset[i] = use_.bytes - added.offset[i] - added.shape.buffers[i].bytes;
      }
      break;
    }
  }
  if (has_one_rule()) return;
  added.regions = region_program(added.shape, added.offset, region_bytes_);
  if (way.kind == CorunWay::Kind::zico) added.regions = region_holds(added.regions);
}

bool SharedPool::has_one_rule() const {
  return is_in_turns() || use_.way.kind == CorunWay::Kind::beside;
}

bool SharedPool::all_on_circle() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) {
    return m.left || m.slot < 0 || (m.on_circle && m.program == *m.on_circle);
  });
}

bool SharedPool::any_inside() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.inside; });
}

// With nobody inside a step: the use that was asked for, and the gate for what jobs run now.
void SharedPool::settle() {
  if (next_) {
    PoolUse next = std::move(*next_);
    next_.reset();
    int64_t addresses = 0;  // what all jobs can make use of
    for (const Member& m : members_) {
      int64_t tallest = 0;
      for (const Added& program : m.programs) tallest = std::max(tallest, program.height);
      addresses += tallest;
    }
    commit(next.bytes, addresses);
    use_ = std::move(next);
    in_use_ = true, ++version_;
    gate_.reset(), zico_ = nullptr;
    for (Member& m : members_) m.slot = -1, m.on_circle.reset();
    for (size_t i = 0; i < use_.jobs.size(); ++i) at(use_.jobs[i]).slot = int(i);
    region_bytes_ = region_bytes_of(use_.bytes);
    for (size_t j = 0; j < members_.size(); ++j) {
      for (size_t p = 0; p < members_[j].programs.size(); ++p) place(JobId(j), p);
    }
    holder_ = -1;
    is_current_ = false;
  }
  if (!is_right()) make_gate();
}

void SharedPool::make_gate() {
  zico_ = nullptr;
  is_circle_ = use_.way.kind == CorunWay::Kind::circle && all_on_circle();
  if (is_in_turns()) {
    gate_ = turn_gate();
  } else if (use_.way.kind == CorunWay::Kind::beside) {
    gate_ = open_gate();
  } else if (is_circle_) {
    gate_ = circle_gate(use_.way.circle, use_.way.waits);
  } else {
    std::vector<std::vector<RegionProgram>> programs;
    for (const JobId job : use_.jobs) {
      auto& of_job = programs.emplace_back();
      for (const Added& program : at(job).programs) of_job.push_back(program.regions);
    }
    const auto regions = int32_t(use_.bytes / region_bytes_ + 1);
    if (use_.way.kind == CorunWay::Kind::zico) {
      auto zico = zico_gate({std::move(programs), region_bytes_, regions}, &clock_ms_);
      zico_ = zico.get(), gate_ = std::move(zico);
    } else {
      gate_ = ticket_gate(std::move(programs), regions);
    }
  }
  for (const Member& m : members_) {
    if ((m.left || m.late) && m.slot >= 0) gate_->leave(JobId(m.slot));
  }
  is_current_ = true, ++gate_version_, ++barrier_;
  for (Member& m : members_) {
    ++m.stats.switches;
    if (m.events) m.events->begin_count();
    m.behind.clear(), m.shifted_ms = 0;
  }
}

// Before the step's gate forgets it.
void SharedPool::count_shift(JobId job) {
  if (!zico_) return;
  Member& m = at(job);
  const double ms = zico_->shifted_ms(slot(job));
  m.stats.shifted_seconds += (ms - m.shifted_ms) / 1000, m.shifted_ms = ms;
  m.stats.gave_up = zico_->gave_up();
}

bool SharedPool::is_right() const {
  if (next_ || !gate_) return false;
  if (has_one_rule()) return true;
  return is_current_ && is_circle_ == (use_.way.kind == CorunWay::Kind::circle && all_on_circle());
}

}  // namespace pal
