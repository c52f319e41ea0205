// One pool of memory for several jobs, each in a thread of its own (Zico, Lim et al. 2021): its
// bytes, and who waits for whom. The rules are gates (memory/share/gate.h); here are the threads.
//
// On an accelerator jobs ask and report when they queue nodes. A job's thread waits until the
// others have queued what it comes behind, and its compute queue until the device has done that: by
// events that are recorded already, so that no queue can wait for what may never come. In turns a
// step ends when the device has done it. Zico's scheduler goes by when regions are given back:
// under it a job's thread follows its device, and reports a moment when the device is there.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "memory/plan/plan.h"
#include "memory/run/committed_pages.h"
#include "memory/run/passed_events.h"
#include "memory/share/corun_plan.h"
#include "memory/share/zico_gate.h"

namespace pal {

struct PoolStats {
  int64_t waits = 0;          // of a job, for others
  double waited_seconds = 0;  // in them
  int64_t switches = 0;       // from one rule to another, all jobs between steps
  int64_t steps = 0;
  double worked_seconds = 0;   // within steps, without waiting
  double predicted_ms = 0;     // of those steps, which may be of several programs
  double shifted_seconds = 0;  // by which Zico's scheduler began them later
  bool gave_up = false;        // Zico's scheduler, and has jobs take turns
};

// What one job's programs need, all of them: the largest of each kind.
struct JobNeeds {
  int64_t own_bytes = 0;  // state, inputs, outputs
  int64_t height = 0;     // of the pool
  std::string tallest;    // the program that needs so much of it
};

// How a pool is used from now on.
struct PoolUse {
  // Its kind is the rule, for the steps that it was planned for. Under a circle or tickets, steps
  // of other programs (other buckets, validation) run under tickets. Of groups each has a part of
  // the pool and a rule of its own; a program that is taller than the part runs alone.
  CorunWay way;
  std::vector<JobId> jobs;  // the pool's job that each of the way's jobs is; none are left out
  int64_t bytes = 0;        // of the pool
  // By job of the way: the bytes of its part where jobs run beside each other (also within a
  // group). A program that needs more runs alone, and may have the whole pool.
  std::vector<int64_t> parts = {};
  double slice_seconds = 0;  // in turns: a job's turn lasts so long; 0: one step
  // Shapes of a circle, which it points to.
  std::shared_ptr<const std::vector<StepShape>> shapes = nullptr;
};

class SharedPool {
 public:
  // Programs may be added; steps may begin when use() has been called. `accelerator`: whose memory
  // it is; null: the processor's.
  explicit SharedPool(size_t jobs, std::shared_ptr<Accelerator> accelerator = nullptr)
      : accelerator_(std::move(accelerator)), members_(jobs) {}
  ~SharedPool();
  // For jobs 0, 1, ... of the way. Shapes of a circle must outlive this.
  SharedPool(CorunWay way, size_t jobs, int64_t bytes, std::vector<int64_t> parts = {},
             std::shared_ptr<Accelerator> accelerator = nullptr);

  // From now on, or as soon as no job is inside a step: no step begins before. Bytes that are no
  // longer the pool's go back to the system then. BudgetError, and nothing has changed, where a
  // program of a job alone needs more than there is. Jobs that `use` leaves out have left.
  void use(PoolUse use);

  // A program of a job, where its plan has put what it shares, and the bytes of its own that it
  // takes: between steps of that job. BudgetError where it alone needs more than there is, or the
  // job would have more of its own than expect() allowed it.
  size_t add(JobId job, const StepShape& shape, const Plan& plan, int64_t own_bytes = 0);
  // Whose queues a job's steps run on, on an accelerator: before its first step.
  void attach(JobId job, const std::shared_ptr<Accelerator>& queues);
  // The job's programs are no more: between its steps. Others are to be added.
  void forget(JobId job);
  JobNeeds needs(JobId job) const;
  // The most bytes of its own that a job may have.
  void expect(JobId job, int64_t own_bytes);

  // Where a program's storages lie, which changes with the pool's use: inside a step of it.
  const PoolOffsets& offset(JobId job, size_t program) const;
  // Likewise, of the program with this shape; empty where there is none.
  PoolOffsets offset_of(JobId job, const StepShape& shape) const;
  // How many steps the program with this shape has run.
  int64_t steps_of(JobId job, const StepShape& shape) const;
  // Counts the uses.
  int64_t version() const { return version_; }
  // Counts the uses and the gates: so long offset() and stops() stay.
  int64_t gate_version() const { return gate_version_; }

  std::byte* base() const { return accelerator_ ? block_ : pages_.base(); }
  int64_t bytes() const { return accelerator_ ? block_bytes_ : pages_.bytes(); }
  int64_t resident() const;  // bytes of it that take memory now

  // Around a step of a program; each waits until the job may go on.
  void begin_step(JobId job, size_t program);
  // The moments at which this step must ask and report; they hold until its end.
  const std::vector<int64_t>& asks(JobId job) const { return gate_->asks(slot(job)); }
  const std::vector<int64_t>& reports(JobId job) const { return gate_->reports(slot(job)); }
  // All at which a step of this program ever does, under this gate.
  std::vector<int64_t> stops(JobId job) const { return gate_->stops(slot(job)); }
  // Whether an accelerator begins all of the job's nodes before others', or those that are light.
  bool goes_first(JobId job) const { return use_.way.first.job == slot(job); }
  bool light_goes_first() const { return use_.way.first.light; }
  void ask(JobId job, int64_t moment);
  void report(JobId job, int64_t moment);
  void end_step(JobId job);
  // The job takes no more steps: it has ended, or failed.
  void leave(JobId job);

  PoolStats stats(JobId job) const;

 private:
  struct Added {
    StepShape shape;
    PoolOffsets planned;         // from the bottom: the plan's, or lower
    int64_t height = 0;          // of them
    PoolOffsets offset = {};     // now
    RegionProgram regions = {};  // now
    int64_t steps = 0;           // that it has run
    bool alone = false;          // now: nobody else may be inside a step meanwhile
  };
  struct Member {
    std::deque<Added> programs;
    std::map<size_t, size_t> on_circle;  // programs that are on it, and which of its own they are
    size_t program = 0;                  // that it runs, or ran last
    int slot = -1;                       // of the way's jobs; -1: none
    size_t group = 0, place = 0;         // where that is: its group, and which of the group's jobs
    bool inside = false, left = false;
    bool late = false;          // others on the circle go on without it
    double step_seconds = 0;    // of its last step, without waiting
    double waited_seconds = 0;  // within its step
    int64_t own_bytes = 0;
    std::optional<int64_t> own_limit;
    Clock::time_point begun;
    PoolStats stats;
    // On an accelerator, until it leaves.
    std::shared_ptr<Accelerator> queues;
    std::unique_ptr<PassedEvents> events;
    double shifted_ms = 0;             // by Zico's scheduler, since the gate was made
    int64_t seen = 0;                  // the barrier that its queue has waited at
    std::vector<PassedMoment> behind;  // what of each of the way's jobs it has waited for
  };
  // Jobs that go by one rule in a part of the pool.
  struct Group {
    const CorunWay* way = nullptr;
    std::vector<JobId> jobs;  // of the pool
    int64_t base = 0, bytes = 0;
    int64_t region_bytes = 64;
    bool is_circle = false;  // the rule that is in force
  };
  Member& at(JobId job) { return members_[size_t(job)]; }
  const Member& at(JobId job) const { return members_[size_t(job)]; }
  JobId slot(JobId job) const { return JobId(at(job).slot); }
  Group& group_of(JobId job) { return groups_[at(job).group]; }
  static bool has_one_rule(const Group& group);
  bool all_on_circle(const Group& group) const;
  bool wants_circle(const Group& group) const;
  bool any_inside() const;
  bool is_right() const;
  bool may_enter(JobId job);
  bool is_turn_of(JobId job);
  void pass_turn(JobId from);
  void place(JobId job, size_t program);
  void settle();
  void make_groups();
  void make_gate();
  std::unique_ptr<PoolGate> gate_for(Group& group);
  void commit(int64_t bytes, int64_t addresses);
  void wait_in_thread(JobId job, int64_t moment, std::unique_lock<std::mutex>& lock);
  void wait_on_device(JobId job, const std::vector<PassedMoment>& others);
  void wait_at_barrier(JobId job);
  bool follows_device() const { return use_.way.kind == CorunWay::Kind::zico; }
  void look_at_clock() {
    if (zico_) clock_ms_ = 1000 * seconds_since(made_);
  }
  void count_shift(JobId job);
  bool is_in_turns(JobId job) { return group_of(job).way->kind == CorunWay::Kind::turns; }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  PoolUse use_;
  std::optional<PoolUse> next_;
  bool in_use_ = false;
  int64_t version_ = 0, gate_version_ = 0;
  std::vector<Group> groups_;  // of the use
  CommittedPages pages_;       // of the processor
  const std::shared_ptr<Accelerator> accelerator_;
  std::byte* block_ = nullptr;  // of the accelerator
  int64_t block_bytes_ = 0;
  std::vector<Member> members_;
  const Clock::time_point made_ = Clock::now();
  double clock_ms_ = 0;  // since then; for gates that go by a clock
  std::unique_ptr<PoolGate> gate_;
  const ZicoGate* zico_ = nullptr;  // the gate, where it is Zico's
  bool is_current_ = false;         // it knows all programs, and who takes part
  std::deque<JobId> alone_;         // who runs alone, or waits for it
  // Counts the moments behind which whoever begins a step comes behind all steps before them.
  int64_t barrier_ = 0;
  std::vector<PassedMoment> others_;  // of the job that asks
  // Turns of some length: whose it is, and until when.
  JobId holder_ = -1;
  bool holder_stepped_ = false;  // it has begun a step of its turn
  Clock::time_point turn_ends_;
};

}  // namespace pal
