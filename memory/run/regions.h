// Two jobs (or more) in one memory (Zico, Lim et al. 2021): a pool of fixed-size regions, each held
// by one job from the birth of the first storage in it to the death of the last, then free for
// others.
//
// Every job has its plan's transients at fixed places of the pool, counted from the bottom or from
// the top, so the regions that it still needs in its step are known. Jobs are ordered by when their
// running step began; a job takes a region only when no earlier job holds it or still needs it in
// its running step, and waits otherwise.
//
// No deadlock: let J be the job whose step began first. A region that J needs can only be held by a
// job that took it. Had J's step already begun, that job had to see that J did not need it any
// more; had J's step not begun, that job's step began before J's and is over, since J is first, and
// at the end of a step all its regions are free. So J never waits, finishes its step, and the next
// is first. When both jobs need the same regions at their peaks, one waits: time-slicing, rather
// than failure.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "core/memory.h"
#include "core/program.h"
#include "memory/plan/plan.h"
#include "memory/run/static_plan.h"

namespace pal {

struct RegionStats {
  int64_t peak = 0;   // most bytes of regions held at once
  int64_t waits = 0;  // times that a job had to wait
};

// The regions, and who holds them. Jobs run in threads of their own.
class RegionPool {
 public:
  RegionPool(int64_t bytes, int64_t region_bytes);

  int64_t region_bytes() const { return region_bytes_; }
  int64_t bytes() const { return int64_t(holder_.size()) * region_bytes_; }
  RegionStats stats() const;

 private:
  friend class Regions;
  struct Job {
    int64_t began = 0;             // ticket of the running step, 0 between steps
    NodeId at = 0;                 // the node that it runs
    std::vector<NodeId> last_use;  // by region: after this node it is not needed in this step
  };
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  Arena arena_;
  int64_t region_bytes_;
  std::vector<int32_t> holder_;  // by region: the job, or -1
  std::vector<Job> jobs_;
  int64_t tickets_ = 0, held_ = 0;
  RegionStats stats_;
};

// One job's memory. State, inputs and outputs lie in an arena of its own, transients in the pool.
class Regions final : public Memory {
 public:
  enum class From : uint8_t { bottom, top };

  // BudgetError when the job alone does not fit the pool; ProgramError for several queues. Jobs
  // join between steps; storages, pool and arena must outlive this.
  Regions(const Program& program, const Storages& storages, const Plan& plan, RegionPool& pool,
          Arena& arena, From from);

  ~Regions() override;  // gives back what a failed step still held

  void begin_step() override;
  void end_step() override;
  std::byte* acquire(StorageId id, QueueId queue) override;
  void after_node(NodeId node, QueueId queue) override;
  std::byte* outside_step(StorageId id) override;
  int64_t capacity() const override;

 private:
  struct Span {
    int32_t first = 0, last = -1;
  };  // regions that a storage touches, inclusive
  void leave();
  bool may_take(int32_t region) const;
  void give_back(int32_t region);

  const Storages& storages_;
  RegionPool& pool_;
  Arena& arena_;
  int32_t job_ = 0;
  ByStorage<int64_t> offset_;  // in the pool, or in the arena
  ByStorage<char> pooled_;
  ByStorage<Span> span_;
  ByNode<std::vector<StorageId>> ends_;  // storages that no later node touches
  ByStorage<char> alive_;                // it counts in its regions
  std::vector<int32_t> living_;          // by region: storages of this job alive in it
};

}  // namespace pal
