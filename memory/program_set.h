// A run's programs over one state: training steps for every bucket, validation, decoding. They share
// one arena, in which the state lies first, so a weight has one address for all of them.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/accelerator.h"
#include "core/runner.h"
#include "memory/compile.h"
#include "memory/static_plan.h"

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

// One compiled program of a set, ready to run. On an accelerator run() returns when all is queued;
// what waits for it are output(), ProgramSet::state() and, for as long as the last inputs are in use,
// input(). So a loss that nobody reads costs no wait.
class Executable {
 public:
  const Compiled& compiled() const { return *compiled_; }
  const Program& program() const { return compiled_->program; }
  // Bytes of an input, to fill before run(). What was put there stays there.
  std::byte* input(const std::string& name);
  // Bytes of an output, to read after run(). On an accelerator a copy, good until the next call for
  // the same output.
  template <class T = float>
  T* output(const std::string& name) {
    return reinterpret_cast<T*>(output_bytes(name));
  }
  void run();
  Runner& runner() { return *runner_; }
  StaticPlan& memory() { return *memory_; }

 private:
  friend class ProgramSet;
  std::byte* output_bytes(const std::string& name);

  std::unique_ptr<Compiled> compiled_;
  std::unique_ptr<StaticPlan> memory_;
  std::unique_ptr<Runner> runner_;
  // On an accelerator only: the inputs as they are filled, in pinned memory, and what became of them.
  std::shared_ptr<Accelerator> accelerator_;
  std::shared_ptr<StateMirror> state_;
  std::unique_ptr<Arena> staging_;
  Accelerator::Event sent_, done_;
  std::map<std::string, std::vector<std::byte>> fetched_;
};

struct StateTensor {
  std::string name;
  Role role;
  Init init;
  TensorSpec spec;
  std::byte* data;
};

class ProgramSet {
 public:
  ProgramSet(CompileOptions options, const Device& device);

  // Makes room for a program's state slots. Once a program is compiled the state is fixed: a set whose
  // first program does not carry all of it declares the others first.
  void declare(const Program& program);
  // Compiles a program under a name; it binds to the state by name (ProgramError when it asks for a
  // slot that was not declared, or is another shape). The arena grows when a later program needs
  // more; the state is kept. BudgetError when it may not.
  Executable& add(const std::string& name, Program program);
  Executable* find(const std::string& name);

  // On an accelerator a copy; what is written there reaches the device before the next step.
  std::vector<StateTensor> state();
  int64_t arena_bytes() const;  // what the set holds
  const Device& device() const { return cache_.device(); }

 private:
  CompileOptions options_;
  KernelCache cache_;
  StateLayout layout_;
  std::vector<StateTensor> slots_;  // data is filled in by state()
  std::unique_ptr<Arena> arena_;
  std::shared_ptr<StateMirror> mirror_;  // null: the processor reads the arena itself
  std::map<std::string, std::unique_ptr<Executable>> programs_;
};

}  // namespace pal
