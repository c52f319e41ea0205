// One pool of memory for several jobs, each in a thread of its own (Zico, Lim et al. 2021): its
// bytes, and who waits for whom. The rules are gates (memory/share/gate.h); here are the threads.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "memory/run/static_plan.h"
#include "memory/share/corun_plan.h"

namespace pal {

struct PoolStats {
  int64_t waits = 0;          // of a job, for others
  double waited_seconds = 0;  // in them
  int64_t switches = 0;       // from one rule to another, all jobs between steps
};

class SharedPool {
 public:
  // `way.kind` is the rule, for the steps that it was planned for. Under a circle or tickets, steps
  // of other programs (other buckets, validation) run under tickets. `parts`: by job, the bytes of
  // its part of the pool where jobs run beside each other, else unused. Shapes of a circle must
  // outlive this.
  SharedPool(CorunWay way, size_t jobs, int64_t bytes, std::vector<int64_t> parts = {});

  // A program of a job, and where what it shares lies in the pool: between steps of that job.
  // BudgetError where it alone needs more than there is.
  size_t add(JobId job, const StepShape& shape, const Plan& plan);
  const PoolOffsets& offset(JobId job, size_t program) const;

  std::byte* base() const { return arena_.base(Space::device); }
  int64_t bytes() const { return arena_.bytes(Space::device); }

  // Around a step of a program; each waits until the job may go on.
  void begin_step(JobId job, size_t program);
  // The moments at which this step must ask and report; they hold until its end.
  const std::vector<int64_t>& asks(JobId job) const { return gate_->asks(job); }
  const std::vector<int64_t>& reports(JobId job) const { return gate_->reports(job); }
  void ask(JobId job, int64_t moment);
  void report(JobId job, int64_t moment);
  void end_step(JobId job);
  // The job takes no more steps: it has ended, or failed.
  void leave(JobId job);

  PoolStats stats(JobId job) const;

 private:
  struct Member {
    std::vector<RegionProgram> programs;
    std::vector<PoolOffsets> offset;
    std::optional<size_t> on_circle;  // the program that the circle is for
    size_t program = 0;               // that it runs, or ran last
    bool inside = false, left = false;
    double step_seconds = 0;  // of its last step
    Clock::time_point begun;
    PoolStats stats;
  };
  Member& at(JobId job) { return members_[size_t(job)]; }
  bool all_on_circle() const;
  bool any_inside() const;
  void make_gate();
  void use_right_gate(std::unique_lock<std::mutex>& lock, JobId job);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  const CorunWay way_;
  const std::vector<int64_t> parts_;
  int64_t region_bytes_;
  Arena arena_;
  std::vector<Member> members_;
  std::unique_ptr<PoolGate> gate_;
  bool is_circle_ = false;   // the gate's rule
  bool is_current_ = false;  // it knows all programs, and who takes part
};

// One program's memory, where a pool holds what it shares. State, both slots of inputs and outputs
// lie in the job's own arena.
class SharedPlan final : public Memory {
 public:
  // Storages, plan, arena and pool must outlive this. Grows the arena to what it needs.
  SharedPlan(const Storages& storages, const Plan& plan, const StepShape& shape, Arena& arena,
             SharedPool& pool, JobId job);

  void begin_step() override;
  void end_step() override;
  void before_node(NodeId node, QueueId queue) override;
  void after_node(NodeId node, QueueId queue) override;
  std::byte* acquire(StorageId storage, QueueId) override { return address(storage); }
  std::byte* outside_step(StorageId storage) override;
  int64_t capacity() const override;

  // Bytes of the job's arena: state, inputs, outputs.
  static int64_t own_bytes(const Storages& storages, const Plan& plan);

 private:
  std::byte* address(StorageId storage) const;

  const Storages& storages_;
  Arena& arena_;
  SharedPool& pool_;
  const JobId job_;
  size_t program_;
  ByStorage<int64_t> offset_;  // in the pool, or in the arena
  ByStorage<char> pooled_;
  size_t next_ask_ = 0, next_report_ = 0;
};

}  // namespace pal
