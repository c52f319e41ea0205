// How a pool is used: its bytes, where programs lie in it, and by which rule jobs go.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "memory/run/shared_pool.h"
#include "memory/share/grouped_gate.h"
#include "memory/share/zico_plan.h"

namespace pal {
namespace {

std::optional<size_t> program_on(const JobOnCircle& job, const StepShape& shape) {
  for (size_t p = 0; p < job.programs(); ++p) {
    if (job.program(p).buffers == shape.buffers) return p;
  }
  return {};
}

}  // namespace

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
  added.regions = {};
  if (m.slot < 0) return;
  const Group& group = group_of(job);
  const CorunWay& way = *group.way;
  int64_t base = group.base;
  switch (way.kind) {
    case CorunWay::Kind::groups:  // has none within it
    case CorunWay::Kind::turns: added.offset = added.planned; break;
    case CorunWay::Kind::beside: {
      added.offset = added.planned;
      added.alone = added.height > use_.parts[size_t(m.slot)];
      for (size_t i = 0; i < m.place; ++i) base += use_.parts[size_t(at(group.jobs[i]).slot)];
      break;
    }
    case CorunWay::Kind::circle:
      if (const auto on_circle = program_on(way.circle.jobs[m.place], added.shape)) {
        added.offset.clear();
        for (size_t i = 0; i < added.shape.buffers.size(); ++i) {
          added.offset.push_back(pal::offset_of(way.placement, m.place, *on_circle, i));
        }
        m.on_circle[program] = *on_circle;
        break;
      }
      [[fallthrough]];
    case CorunWay::Kind::zico:
    case CorunWay::Kind::tickets: {
      const bool zico = way.kind == CorunWay::Kind::zico;
      // The longest-lived first is better for others, and may be taller than the plan.
      const int64_t height = zico ? place_for_zico(added.shape, added.offset)
                                  : place_longest_first(added.shape, added.offset);
      if (height > group.bytes) added.offset = added.planned;
      for (size_t i = 0; m.place % 2 == 1 && i < added.offset.size(); ++i) {
        added.offset[i] = group.bytes - added.offset[i] - added.shape.buffers[i].bytes;
      }
      break;
    }
  }
  if (groups_.size() > 1 && added.height > group.bytes) added.alone = true;
  if (added.alone) {
    added.offset = added.planned;
    return;
  }
  if (!has_one_rule(group)) {
    added.regions = region_program(added.shape, added.offset, group.region_bytes);
    if (way.kind == CorunWay::Kind::zico) added.regions = region_holds(added.regions);
  }
  for (int64_t& offset : added.offset) offset += base;
}

bool SharedPool::has_one_rule(const Group& group) {
  return group.way->kind == CorunWay::Kind::turns || group.way->kind == CorunWay::Kind::beside;
}

bool SharedPool::all_on_circle(const Group& group) const {
  return std::all_of(group.jobs.begin(), group.jobs.end(), [&](JobId job) {
    const Member& m = at(job);
    return m.left || m.slot < 0 || m.on_circle.contains(m.program);
  });
}

bool SharedPool::wants_circle(const Group& group) const {
  return group.way->kind == CorunWay::Kind::circle && all_on_circle(group);
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
    for (Member& m : members_) m.slot = -1, m.on_circle.clear();
    make_groups();
    for (size_t j = 0; j < members_.size(); ++j) {
      for (size_t p = 0; p < members_[j].programs.size(); ++p) place(JobId(j), p);
    }
    holder_ = -1;
    is_current_ = false;
  }
  if (!is_right()) make_gate();
}

void SharedPool::make_groups() {
  groups_.clear();
  for (size_t i = 0; i < use_.jobs.size(); ++i) at(use_.jobs[i]).slot = int(i);
  const CorunWay& way = use_.way;
  if (way.kind != CorunWay::Kind::groups) {
    groups_.push_back({.way = &way, .jobs = use_.jobs, .bytes = use_.bytes});
  }
  int64_t base = 0;
  for (size_t g = 0; g < way.groups.size(); ++g) {
    Group& group = groups_.emplace_back();
    group.way = &way.groups[g], group.base = base, group.bytes = group.way->pool_bytes;
    for (const JobId j : way.members[g]) group.jobs.push_back(use_.jobs[size_t(j)]);
    base += group.bytes;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    group.region_bytes = region_bytes_of(group.bytes);
    for (size_t i = 0; i < group.jobs.size(); ++i) {
      at(group.jobs[i]).group = g, at(group.jobs[i]).place = i;
    }
  }
}

std::unique_ptr<PoolGate> SharedPool::gate_for(Group& group) {
  const CorunWay& way = *group.way;
  group.is_circle = wants_circle(group);
  if (way.kind == CorunWay::Kind::turns) return turn_gate();
  if (way.kind == CorunWay::Kind::beside) return open_gate();
  if (group.is_circle) return way.gate({});
  std::vector<std::vector<RegionProgram>> programs;
  for (const JobId job : group.jobs) {
    auto& of_job = programs.emplace_back();
    for (const Added& program : at(job).programs) of_job.push_back(program.regions);
  }
  const auto regions = int32_t(group.bytes / group.region_bytes + 1);
  if (way.kind != CorunWay::Kind::zico) return ticket_gate(std::move(programs), regions);
  auto zico = zico_gate({std::move(programs), group.region_bytes, regions}, &clock_ms_);
  zico_ = zico.get();
  return zico;
}

void SharedPool::make_gate() {
  zico_ = nullptr;
  std::vector<std::unique_ptr<PoolGate>> gates;
  for (Group& group : groups_) gates.push_back(gate_for(group));
  gate_ =
      groups_.size() == 1 ? std::move(gates[0]) : grouped_gate(std::move(gates), use_.way.members);
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
  return std::all_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    return has_one_rule(group) || (is_current_ && group.is_circle == wants_circle(group));
  });
}

}  // namespace pal
