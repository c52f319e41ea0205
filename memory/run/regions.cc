// The pool's book-keeping: tickets, holders, waiting.
#include "memory/run/regions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/order.h"
#include "memory/storages/storages.h"

namespace pal {

RegionPool::RegionPool(int64_t bytes, int64_t region_bytes) : region_bytes_(region_bytes) {
  if (region_bytes <= 0 || region_bytes % kAlignment) {
    throw ProgramError("regions of " + std::to_string(region_bytes) +
                       " bytes: the size must be a multiple of 64");
  }
  holder_.assign(size_t(bytes / region_bytes), -1);
  arena_.reserve(Space::device, this->bytes());
}

RegionStats RegionPool::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

Regions::Regions(const Program& program, const Storages& storages, const Plan& plan,
                 RegionPool& pool, Arena& arena, From from)
    : storages_(storages), pool_(pool), arena_(arena) {
  if (queue_count(program) > 1) {
    throw ProgramError("a pool of regions runs programs on one queue");
  }
  const auto touches = touches_of(program, storages);
  const int64_t first = plan.device().transients_begin();
  int64_t height = 0, own = first;
  offset_ = plan.offset;
  span_.resize(offset_.size()), pooled_.assign(offset_.size(), 0);
  alive_.assign(offset_.size(), 0), living_.assign(pool.holder_.size(), 0);
  ends_.resize(program.nodes.size());
  std::vector<NodeId> last_use(pool.holder_.size(), kNone);
  for (StorageId s : offset_.ids()) {
    const Storage& storage = storages[s];
    if (!storage.is_transient() || storage.space != Space::device) continue;
    if (storage.output || touches[s].empty() || storage.bytes == 0) {
      offset_[s] = own;  // an output outlives the step, so it is not the pool's
      own += align_up(storage.bytes);
      continue;
    }
    const int64_t bytes = align_up(storage.bytes), begin = plan.offset[s] - first;
    height = std::max(height, begin + bytes);
    if (height > pool.bytes()) continue;
    pooled_[s] = 1;
    offset_[s] = from == From::bottom ? begin : pool.bytes() - begin - bytes;
    span_[s] = {int32_t(offset_[s] / pool.region_bytes_),
                int32_t((offset_[s] + bytes - 1) / pool.region_bytes_)};
    ends_[touches[s].back()].push_back(s);
    for (int32_t r = span_[s].first; r <= span_[s].last; ++r) {
      last_use[r] = std::max(last_use[r], touches[s].back());
    }
  }
  if (height > pool.bytes()) {
    throw BudgetError("the job alone needs " + std::to_string(height) + " bytes of the pool, " +
                      std::to_string(height - pool.bytes()) +
                      " more than it has; give it a larger budget, or run the jobs one after the "
                      "other");
  }
  arena_.reserve(Space::device, own);
  arena_.reserve(Space::host, plan.host().bytes);
  std::lock_guard lock(pool_.mutex_);
  job_ = int32_t(pool_.jobs_.size());
  pool_.jobs_.push_back({.last_use = std::move(last_use)});
}

Regions::~Regions() { leave(); }

// Gives everything back: at the end of a step, or of a job that failed within one.
void Regions::leave() {
  std::lock_guard lock(pool_.mutex_);
  std::fill(alive_.begin(), alive_.end(), 0);
  for (size_t r = 0; r < living_.size(); ++r) {
    if (living_[r] > 0) living_[r] = 0, give_back(int32_t(r));
  }
  pool_.jobs_[job_].began = 0;
  pool_.freed_.notify_all();
}

void Regions::begin_step() {
  leave();
  std::lock_guard lock(pool_.mutex_);
  RegionPool::Job& job = pool_.jobs_[job_];
  job.began = ++pool_.tickets_;
  job.at = 0;
}

void Regions::end_step() { leave(); }

bool Regions::may_take(int32_t region) const {
  const int32_t holder = pool_.holder_[region];
  if (holder == job_) return true;
  if (holder >= 0) return false;
  const int64_t mine = pool_.jobs_[job_].began;
  return std::all_of(pool_.jobs_.begin(), pool_.jobs_.end(), [&](const RegionPool::Job& other) {
    return other.began == 0 || other.began >= mine || other.last_use[region] < other.at;
  });
}

std::byte* Regions::acquire(StorageId id, QueueId) {
  if (!pooled_[id]) return arena_.base(storages_[id].space) + offset_[id];
  if (!alive_[id]) {
    std::unique_lock lock(pool_.mutex_);
    for (int32_t r = span_[id].first; r <= span_[id].last; ++r) {
      if (!may_take(r)) {
        ++pool_.stats_.waits;
        pool_.freed_.wait(lock, [&] { return may_take(r); });
      }
      if (std::exchange(pool_.holder_[r], job_) != job_) ++pool_.held_;
      ++living_[r];
    }
    alive_[id] = 1;
    pool_.stats_.peak = std::max(pool_.stats_.peak, pool_.held_ * pool_.region_bytes_);
  }
  return pool_.arena_.base(Space::device) + offset_[id];
}

void Regions::after_node(NodeId node, QueueId) {
  if (ends_[node].empty()) return;
  std::lock_guard lock(pool_.mutex_);
  pool_.jobs_[job_].at = node + 1;
  bool freed = false;
  for (StorageId id : ends_[node]) {
    if (!alive_[id]) continue;
    alive_[id] = 0;
    for (int32_t r = span_[id].first; r <= span_[id].last; ++r) {
      if (--living_[r] == 0) give_back(r), freed = true;
    }
  }
  if (freed) pool_.freed_.notify_all();
}

// With the pool's mutex held.
void Regions::give_back(int32_t region) {
  pool_.holder_[region] = -1;
  --pool_.held_;
}

std::byte* Regions::outside_step(StorageId id) {
  if (pooled_[id]) {
    throw ProgramError("a storage of the pool has no address outside a step");
  }
  return arena_.base(storages_[id].space) + offset_[id];
}

int64_t Regions::capacity() const {
  return pool_.bytes() + arena_.bytes(Space::device) + arena_.bytes(Space::host);
}

}  // namespace pal
