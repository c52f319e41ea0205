// The ordinary memory: every storage at its planned place in one arena. Nothing is allocated while
// a step runs, and acquire is an addition.
#pragma once
#include <array>
#include <functional>
#include <memory>

#include "core/accelerator.h"
#include "memory/plan/plan.h"
#include "memory/run/planned_memory.h"

namespace pal {

// The machine has not so much memory for copies.
struct HostBudgetError : BudgetError {
  using BudgetError::BudgetError;
};

// The memory of a program set: one block for the device, one for host copies. Programs over the
// same StateLayout find their state at the same place in it. On an accelerator the first is its own
// memory, which the processor cannot read, the second is pinned.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::shared_ptr<Accelerator> accelerator) : accelerator_(std::move(accelerator)) {}
  explicit Arena(const Plan& plan) { reserve(plan); }

  // Grows to at least so many bytes; the first `keep` of what was there stay, at the same offsets,
  // in a new place: no step may be running. On an accelerator they wait in the host's memory
  // meanwhile, so that old and new are never held at once. New bytes are zero; on the processor
  // they take no memory until they are written. BudgetError where there are not so many, and the
  // arena is as it was; Error where the system refuses them.
  void reserve(Space space, int64_t bytes, int64_t keep = INT64_MAX);
  // For a program's plan: what stays is the state.
  void reserve(const Plan& plan) {
    reserve(Space::device, plan.device().bytes, plan.device().state);
    reserve(Space::host, plan.host().bytes, plan.host().state);
  }
  std::byte* base(Space space) const { return blocks_[region_of(space)].data.get(); }
  int64_t bytes(Space space) const { return blocks_[region_of(space)].bytes; }

  // Canaries: a pattern over all bytes from `from` on, and the end of the highest 64 bytes that no
  // longer hold it (`from` when all do). What lies there is lost.
  void fill_canary(Space space = Space::device, int64_t from = 0);
  int64_t touched(Space space = Space::device, int64_t from = 0) const;

 private:
  struct Block {
    std::unique_ptr<std::byte, std::function<void(std::byte*)>> data;
    int64_t bytes = 0;
  };
  // Calls f(host's view of some bytes, their offset, their number) over [from, end of the block),
  // last bytes first, until it says stop (true); writes back what it left there.
  template <class F> void visit(Space space, int64_t from, bool write, F f) const;
  std::array<Block, kRegions> blocks_;
  std::shared_ptr<Accelerator> accelerator_;
};

// One program's view of an arena. Storages, plan and arena must outlive it; several programs may
// take turns over one arena.
class StaticPlan final : public PlannedMemory {
 public:
  // ProgramError when the arena is smaller than the plan.
  StaticPlan(const Storages& storages, const Plan& plan, Arena& arena);

  std::byte* acquire(StorageId storage, QueueId) override { return address(storage); }
  // Inputs: of the slot that the next step reads.
  std::byte* outside_step(StorageId storage) override { return address(storage); }
  int64_t capacity() const override;

  std::byte* input_address(StorageId storage, int slot) const;

  // Fills what lies behind the state and inputs with a canary, for recorded_peak.
  void fill_canary() { arena_.fill_canary(Space::device, plan_.device().transients_begin()); }
  // The highest byte of the device region touched since then, rounded up to 64.
  int64_t recorded_peak() const {
    return arena_.touched(Space::device, plan_.device().transients_begin());
  }
  const Plan& plan() const { return plan_; }
  std::byte* base(Space space) const override { return arena_.base(space); }

 private:
  std::byte* address(StorageId storage) const { return input_address(storage, input_slot()); }

  const Storages& storages_;
  const Plan& plan_;
  Arena& arena_;
};

}  // namespace pal
