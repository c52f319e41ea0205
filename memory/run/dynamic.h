// Memory decided while the step runs, under a byte budget: one slab, from which storages are
// evicted when the next one does not fit, and brought back when they are asked for (DELTA; DTR,
// Kirisame et al. 2021). A small version: the least valuable storage goes first, by DTR's h = cost
// / (bytes x staleness), where the cost is that of running its node again, or of copying it out and
// back.
//
// A storage can be made again by its node when one pure node wrote all of it, nothing the node read
// is overwritten before the storage's last use, and what the node read can be had then. Everything
// else (in-place chains, stacks, gates, program outputs) is copied to host memory instead. State
// and inputs stay where they are. Programs with one queue only.
#pragma once
#include <memory>
#include <vector>

#include "core/memory.h"
#include "core/program.h"
#include "memory/place/buffers/gaps.h"
#include "memory/plan/plan.h"
#include "memory/run/static_plan.h"

namespace pal {

struct DynamicOptions {
  int64_t budget = 0;     // bytes on the device: state, inputs and slab together
  bool recompute = true;  // may run nodes again
  bool offload =
      true;  // may prefer a copy to host memory; without (DTR), only what cannot be rerun
  double flops_per_s = 1e11, bytes_per_s = 1e10, host_bytes_per_s = 5e9;  // prices
};

struct DynamicStats {
  int64_t evictions = 0, replays = 0, offloads = 0, reloads = 0;
  int64_t peak = 0;  // most bytes in use at once, state and inputs included
};

class Dynamic final : public Memory {
 public:
  // The state is the arena's front, by the layout, so that other programs can share it; the arena
  // is grown to the budget. Program and storages must outlive this. ProgramError for several
  // queues; BudgetError when what a single node touches does not fit.
  Dynamic(const Program& program, const Storages& storages, const StateLayout& layout, Arena& arena,
          const DynamicOptions& options);

  void begin_step(Replayer& replayer) override;
  std::byte* acquire(StorageId id, QueueId queue) override;
  void release(StorageId id, QueueId queue) override;
  void after_node(NodeId node, QueueId queue) override;
  std::byte* outside_step(StorageId id) override;
  int64_t capacity() const override { return options_.budget; }

  const DynamicStats& stats() const { return stats_; }  // since it was made
  // The budget below which a single node of the program does not fit.
  static int64_t smallest_budget(const Program& program, const Storages& storages,
                                 const StateLayout& layout);

 private:
  enum class Where : uint8_t { unborn, slab, host, dropped, dead };
  struct Live {  // of the running step
    Where where = Where::unborn;
    int pins = 0;
    int64_t offset = 0;                 // in the arena
    int64_t used_at = 0;                // clock of the last release
    std::unique_ptr<std::byte[]> copy;  // host memory, kept for the next time
  };
  struct Facts {  // of the program, fixed
    NodeId last_use = kNone;
    NodeId maker = kNone;  // the node that alone writes it, when it may be run again
    double cost = 0;       // seconds to run that
    bool fixed = false;    // state, inputs, host space: not in the slab
  };

  void learn(const StateLayout& layout);
  void learn_makers();
  int64_t take(StorageId id);  // slab bytes for it, evicting as needed
  bool evict_one();
  int closure(StorageId id, double* cost, int depth) const;
  bool makes(StorageId id) const;  // the node being replayed writes it, and reads it not
  bool still_needed(StorageId id) const;
  void bring_back(StorageId id);
  void drop(StorageId id, Where where);

  const Program& program_;
  const Storages& storages_;
  Arena& arena_;
  DynamicOptions options_;
  ByStorage<Facts> facts_;
  ByStorage<Live> live_;
  ByStorage<std::vector<StorageId>> made_of_;  // what its maker reads
  Gaps slab_;
  std::vector<NodeId> replaying_;  // innermost last
  Replayer* replayer_ = nullptr;
  NodeId done_ = kNone;  // the last node that has run
  int64_t clock_ = 0, in_use_ = 0, fixed_bytes_ = 0;
  DynamicStats stats_;
};

}  // namespace pal
