// A run's programs over one state: training steps for every bucket, validation, decoding. They share
// one arena, in which the state lies first, so a weight has one address for all of them.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/runner.h"
#include "memory/compile.h"
#include "memory/static_plan.h"

namespace pal {

// One compiled program of a set, ready to run.
class Executable {
 public:
  const Compiled& compiled() const { return *compiled_; }
  const Program& program() const { return compiled_->program; }
  // Bytes of an input (to fill before run()), an output or a state slot (to read after it).
  std::byte* input(const std::string& name);
  template <class T = float>
  T* output(const std::string& name) {
    return reinterpret_cast<T*>(runner_->data(program().output(name)));
  }
  void run() { runner_->run(); }
  Runner& runner() { return *runner_; }
  StaticPlan& memory() { return *memory_; }

 private:
  friend class ProgramSet;
  std::unique_ptr<Compiled> compiled_;
  std::unique_ptr<StaticPlan> memory_;
  std::unique_ptr<Runner> runner_;
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

  std::vector<StateTensor> state();
  int64_t arena_bytes() const;  // what the set holds
  const Device& device() const { return cache_.device(); }

 private:
  CompileOptions options_;
  KernelCache cache_;
  StateLayout layout_;
  std::vector<StateTensor> slots_;  // data is filled in by state()
  std::unique_ptr<Arena> arena_;
  std::map<std::string, std::unique_ptr<Executable>> programs_;
};

}  // namespace pal
