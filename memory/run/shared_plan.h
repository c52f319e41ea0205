// One program's memory, where a pool holds what the program shares with other jobs (shared_pool.h).
#pragma once
#include <memory>
#include <vector>

#include "memory/run/planned_memory.h"
#include "memory/run/shared_pool.h"
#include "memory/run/static_plan.h"

namespace pal {

// State, both slots of inputs and outputs lie in the job's own arena.
class SharedPlan final : public PlannedMemory {
 public:
  // Storages, plan, arena and pool must outlive this. Grows the arena to what it needs.
  SharedPlan(const Storages& storages, const Plan& plan, const StepShape& shape, Arena& arena,
             SharedPool& pool, JobId job, const std::shared_ptr<Accelerator>& queues = nullptr);

  void begin_step() override;
  void end_step() override;
  void before_node(NodeId node, QueueId queue) override;
  void after_node(NodeId node, QueueId queue) override;
  std::byte* acquire(StorageId storage, QueueId) override { return address(storage); }
  std::byte* outside_step(StorageId storage) override;
  int64_t capacity() const override;
  int64_t version() const override { return pool_.gate_version(); }
  bool is_edge(NodeId node) const override;
  bool goes_first(NodeId node) const override {
    return all_first_ || (light_first_ && light_[node]);
  }

  std::byte* base(Space space) const override { return arena_.base(space); }
  // Bytes of the job's arena: state, inputs, outputs.
  static int64_t own_bytes(const Storages& storages, const Plan& plan);

 private:
  std::byte* address(StorageId storage) const;

  const Storages& storages_;
  const Plan& plan_;
  Arena& arena_;
  SharedPool& pool_;
  const JobId job_;
  size_t program_;
  std::vector<StorageId> shared_;  // in the order of the program's offsets
  ByStorage<int64_t> offset_;      // in the pool, or in the arena
  ByStorage<char> pooled_;
  int64_t version_ = -1;  // of the pool's use, that offset_ is of
  size_t next_ask_ = 0, next_report_ = 0;
  bool on_accelerator_ = false;
  ByNode<char> light_;  // nodes of the compute queue that leave some of the device to others
  bool all_first_ = false, light_first_ = false;  // in this step
  std::vector<int64_t> stops_;                    // of this step; on an accelerator
};

}  // namespace pal
