// A run's programs over one state: training steps for every bucket, validation, decoding. They
// share one arena, in which the state lies first, so a weight has one address for all of them.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/accelerator.h"
#include "core/runner.h"
#include "memory/compile.h"
#include "memory/overlap/compile_pair.h"
#include "memory/run/shared_plan.h"
#include "memory/run/static_plan.h"

namespace pal {

// The state of a set on an accelerator, as the processor sees it: a copy that is fetched when it is
// asked for, and sent back before the next step.
class StateMirror {
 public:
  StateMirror(std::shared_ptr<Accelerator> accelerator, Arena& arena)
      : accelerator_(std::move(accelerator)), arena_(arena) {}
  std::byte* fetch(int64_t bytes);  // the first so many bytes of the arena
  void send();                      // nothing, unless it was fetched since

 private:
  std::shared_ptr<Accelerator> accelerator_;
  Arena& arena_;
  std::vector<std::byte> copy_;
  bool fetched_ = false;
};

class Executable;

// Whose turn it was on an accelerator. Runs read their inputs from the two slots by turns, whatever
// the program. Where the slots are those of the program that ran last, the next inputs may come in
// while that one runs, since it reads the other slot and has all else behind both. Where they are
// not, the programs lie over one another, and its end must be waited for.
class Turns {
 public:
  // Programs whose steps are recorded at a time; a recording takes memory that no plan holds.
  static constexpr size_t kMostRecorded = 16;
  // Runs of others after which one of them gives up its place to a program that wants it. Sooner,
  // programs that take turns would record over and over; those without a place run unrecorded.
  static constexpr int64_t kLongUnused = 256;

  explicit Turns(Accelerator& accelerator)
      : accelerator_(accelerator), ends_{accelerator.make_event(), accelerator.make_event()} {}
  // Before a run: gives the program a place among those that are recorded, if there is one.
  void admit(Executable& program);
  void forget(const Executable* program) { std::erase(recorded_, program); }
  // Of the run that comes next.
  int slot() const { return int(runs_ % 2); }
  // When inputs of a program with this plan may be written there.
  const Accelerator::Event& before_inputs(Space space, const Plan& plan) const {
    const Region &next = plan.regions[region_of(space)], &last = last_[region_of(space)];
    const bool same = next.state == last.state && next.inputs == last.inputs;
    return ends_[size_t(same ? runs_ : runs_ + 1) % 2];
  }
  const Accelerator::Event& end_of_last() const { return ends_[(runs_ + 1) % 2]; }
  // To be recorded at the end of the run that now begins.
  const Accelerator::Event& begin(const Plan& plan) {
    last_ = plan.regions;
    return ends_[runs_++ % 2];
  }

 private:
  Accelerator& accelerator_;
  std::array<Accelerator::Event, 2> ends_;  // of the last two runs
  std::vector<Executable*> recorded_;
  int64_t runs_ = 0;
  std::array<Region, kRegions> last_{};  // of the program that ran last
};

// One compiled program of a set, ready to run. On an accelerator run() returns when all is queued;
// what waits for it are output(), ProgramSet::state(), input() until the last inputs were copied,
// and the run after the next, whose inputs go where its own were, of this program or another. So a
// loss that nobody reads costs no wait.
class Executable {
 public:
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() {
    if (turns_) turns_->forget(this);
  }
  const Compiled& compiled() const { return *compiled_; }
  const Program& program() const { return compiled_->program; }
  // Bytes of an input, to fill before run(). What was put there stays there.
  std::byte* input(const std::string& name);
  const TensorSpec& input_spec(const std::string& name) const;
  // Bytes of an output, to read after run(). On an accelerator a copy, good until the next call for
  // the same output.
  template <class T = float> T* output(const std::string& name) {
    return reinterpret_cast<T*>(output_bytes(name));
  }
  // Bytes of a state of the program's own (ProgramSet::add_keeping), to be written whole before
  // run(), which takes them from there: what the state is afterwards is not to be seen here.
  std::span<std::byte> kept(const std::string& name);
  void run();
  // On an accelerator, after run(): has outputs of the device copied to pinned memory, and waits
  // for all of them at once. output() then gives those, until the next run.
  void fetch(const std::vector<std::string>& names);
  // Of two micro-batches side by side (ProgramSet::add_pair): from here on the names of inputs and
  // outputs are those of one of them, 0 or 1.
  void look_at(int part) { part_ = part; }
  // On an accelerator, right after run(): has the bytes of an output copied to pinned memory when
  // the step is done, and waits for nothing.
  void send_output(const std::string& name, std::byte* to);
  Runner& runner() { return *runner_; }
  // ProgramError where a pool holds what the program shares.
  StaticPlan& memory();

 private:
  friend class ProgramSet;
  friend class Turns;
  void send_kept();
  std::byte* output_bytes(const std::string& name);
  std::string in_program(const std::string& name) const;  // the name of an input or output there

  std::unique_ptr<Compiled> compiled_;
  int part_ = kNone;
  std::unique_ptr<PlannedMemory> memory_;
  std::unique_ptr<Runner> runner_;
  // On an accelerator only. Inputs are filled beside the arena. Those of the device go by way of
  // pinned memory, on a queue of their own, while the last step runs; the few that a step reads in
  // the host's memory are put there by run().
  std::shared_ptr<Accelerator> accelerator_;
  std::shared_ptr<StateMirror> state_;
  std::shared_ptr<Turns> turns_;
  std::unique_ptr<Arena> staging_;
  Accelerator::Event sent_;
  std::vector<std::byte> host_inputs_;
  bool to_be_recorded_ = false;
  int64_t last_run_ = 0;  // of all runs of the set
  std::map<std::string, std::vector<std::byte>> fetched_;
  std::map<ValueId, std::vector<std::byte>> kept_;  // written, and not yet on the device
  // What fetch() brought: the memory, where each lies in it, and the event behind the copies.
  std::unique_ptr<Arena> brought_;
  std::map<std::string, int64_t> brought_at_;
  Accelerator::Event brought_now_;
};

struct StateTensor {
  std::string name;
  Role role;
  Init init;
  TensorSpec spec;
  std::byte* data;
};

// A job's place in a pool; without a pool a set has memory of its own.
struct PoolShare {
  std::shared_ptr<SharedPool> pool = nullptr;
  JobId job = 0;
  // Whose times its steps are priced by there; null: the set's own options say.
  std::shared_ptr<const DeviceProfile> device = nullptr;
};

class ProgramSet {
 public:
  ProgramSet(CompileOptions options, const Device& device, PoolShare share = {});

  // From here on programs are rewritten as they are added, before anything else: those of a task
  // that does not know how the set's state is divided.
  void rewrite_recorded(std::function<Program(Program)> rewrite) { rewrite_ = std::move(rewrite); }
  // Makes room for a program's state slots. Once a program is compiled the state is fixed: a set
  // whose first program does not carry all of it declares the others first.
  void declare(const Program& program);
  // On an accelerator, before programs are compiled: slots of inputs have room for this one's from
  // here on, so that it and smaller ones take turns without waiting. The first program to be
  // compiled and pairs make room for themselves; a program that needs more has slots of its own.
  void make_room_for_inputs(const Program& program);
  // Compiles a program under a name; it binds to the state by name (ProgramError when it asks for a
  // slot that was not declared, or is another shape). The arena grows when a later program needs
  // more; the state is kept. BudgetError when it may not.
  Executable& add(const std::string& name, Program program) {
    return add(name, std::move(program), options_);
  }
  // Likewise, with other options than the set's. A program of that name is replaced.
  Executable& add(const std::string& name, Program program, const CompileOptions& options);
  // One that keeps state of its own from run to run, which the set does not know: slots that nobody
  // has declared lie behind the set's, where other programs have other things. They are the
  // program's as long as no other one runs.
  Executable& add_keeping(const std::string& name, Program program);
  // Two micro-batches of an update side by side, as one program: of two queues on an accelerator.
  // BudgetError where they do not fit together.
  Executable& add_pair(const std::string& name, const Program& first, const Program& second);
  // One that was compiled for this set already: with its kernels(), and its layout() after
  // declare(program).
  Executable& add_compiled(const std::string& name, Compiled compiled) {
    return install(name, std::make_unique<Compiled>(std::move(compiled)));
  }
  // Null, and nothing has changed, where it would take so many bytes or more.
  Executable* add_below(int64_t bytes, const std::string& name, Program program,
                        const CompileOptions& options);
  Executable* find(const std::string& name);
  std::vector<Executable*> all();  // by name
  // The same device with another number of threads, say: the programs are gone, to be added again
  // for it. The state stays.
  void use_device(const Device& device);

  // On an accelerator a copy; what is written there reaches the device before the next step.
  std::vector<StateTensor> state();
  int64_t arena_bytes() const;  // what the set holds
  const Device& device() const { return cache_.device(); }
  const CompileOptions& options() const { return options_; }
  KernelCache& kernels() { return cache_; }
  const StateLayout& layout() const { return layout_; }

 private:
  void check_declared(const Program& program) const;
  Compiled compile_within(const StateLayout& layout, const Program& program,
                          const CompileOptions& options);
  Executable& install(const std::string& name, std::unique_ptr<Compiled> compiled);

  std::function<Program(Program)> rewrite_;  // null: as they are
  CompileOptions options_;
  PoolShare share_;
  KernelCache cache_;
  StateLayout layout_;
  std::vector<StateTensor> slots_;  // data is filled in by state()
  std::unique_ptr<Arena> arena_;
  std::shared_ptr<StateMirror> mirror_;  // null: the processor reads the arena itself
  std::shared_ptr<Turns> turns_;
  std::map<std::string, std::unique_ptr<Executable>> programs_;
};

}  // namespace pal
