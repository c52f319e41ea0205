// Which addresses are the pool's, and when to ask for them.
#include "memory/run/shared_plan.h"

#include <algorithm>

#include "core/error.h"

namespace pal {

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
                       Arena& arena, SharedPool& pool, JobId job,
                       const std::shared_ptr<Accelerator>& queues)
    : storages_(storages),
      plan_(plan),
      arena_(arena),
      pool_(pool),
      job_(job),
      program_(pool.add(job, shape, plan, own_bytes(storages, plan))),
      offset_(plan.offset),
      pooled_(plan.offset.size(), 0) {
  for (const SharableBuffer& b : shape.buffers) {
    pooled_[b.storage] = 1;
    shared_.push_back(b.storage);
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
  pool.attach(job, queues);
  on_accelerator_ = queues != nullptr;
  // What does no work goes with the node before it: a change of streams costs an event.
  light_.assign(size_t(shape.moments() / 2), 0);
  char last = 0;
  for (size_t i = 0; i < shape.nodes.size(); ++i) {
    if (shape.nodes[i].units > 0) last = shape.nodes[i].is_light();
    light_[shape.node[i]] = last;
  }
}

void SharedPlan::begin_step() {
  pool_.begin_step(job_, program_);
  if (version_ != pool_.version()) {
    const PoolOffsets& offset = pool_.offset(job_, program_);
    for (size_t i = 0; i < offset.size(); ++i) offset_[shared_[i]] = offset[i];
    version_ = pool_.version();
  }
  next_ask_ = next_report_ = 0;
  if (on_accelerator_) {
    stops_ = pool_.stops(job_);
    all_first_ = pool_.goes_first(job_), light_first_ = pool_.light_goes_first();
  }
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

bool SharedPlan::is_edge(NodeId node) const {
  const auto stop = std::lower_bound(stops_.begin(), stops_.end(), done_of(node - 1));
  return stop != stops_.end() && *stop <= start_of(node);
}

std::byte* SharedPlan::address(StorageId id) const {
  if (pooled_[id]) return pool_.base() + offset_[id];
  const Storage& storage = storages_[id];
  std::byte* const first = arena_.base(storage.space) + offset_[id];
  return storage.input ? first + input_slot() * plan_.regions[region_of(storage.space)].inputs
                       : first;
}

std::byte* SharedPlan::outside_step(StorageId id) {
  if (pooled_[id]) throw ProgramError("a storage of the pool has no address outside a step");
  return address(id);
}

int64_t SharedPlan::capacity() const {
  return arena_.bytes(Space::device) + arena_.bytes(Space::host);
}

}  // namespace pal
