// What the probes share: a program planned in the usual way and run in a memory, numbers to feed
// it, and comparisons.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/prepare.h"
#include "core/runner.h"
#include "core/scalars.h"
#include "memory/plan/plan.h"
#include "memory/run/static_plan.h"
#include "memory/storages/storages.h"

namespace pal::test {

// A program with kernels and storages: all that running it needs but the memory.
struct Step {
  explicit Step(Program p, int threads = 1, const StorageOptions& options = {});

  Program program;
  Device device;
  ByNode<std::shared_ptr<const Kernel>> kernels;
  ByNode<int64_t> workspace;  // bytes by node
  Storages storages;
};

// A step running in a memory; values go in and come out by name, as numbers.
class Running {
 public:
  Running(const Step& step, Memory& memory, RunOptions options = {});

  // Of an input or a state slot. Numbers are rounded to the value's type.
  void set(const std::string& name, const std::vector<float>& numbers);
  void set_scalars(const std::string& name, const StepScalars& scalars);
  void run() { runner_.run(); }
  // Of an output, or of a state slot as it stands.
  std::vector<float> floats(const std::string& name);
  std::vector<std::byte> bytes(const std::string& name);
  Runner& runner() { return runner_; }
  const Program& program() const { return program_; }

 private:
  ValueId find(const std::string& name) const;
  const Program& program_;
  Runner runner_;
};

// A step, its plan, an arena, and a runner.
class Planned {
 public:
  explicit Planned(Program program, int threads = 1, const StorageOptions& options = {},
                   RunOptions run_options = {});
  // One of several programs over one state, which take turns in one arena.
  Planned(Program program, const StateLayout& layout, Arena& arena);

  void set(const std::string& name, const std::vector<float>& v) { running_->set(name, v); }
  void set_scalars(const std::string& n, const StepScalars& s) { running_->set_scalars(n, s); }
  void run() { running_->run(); }
  std::vector<float> floats(const std::string& name) { return running_->floats(name); }
  std::vector<std::byte> bytes(const std::string& name) { return running_->bytes(name); }

  // Bytes of a region that is placed: state, inputs and transients.
  int64_t peak(Space space) const { return plan_.regions[region_of(space)].bytes; }
  // Whether the plan would do for this program of as many nodes and the same values.
  void check(const Program& program) const { check_plan(program, step_->storages, plan_); }
  void fill_arena(int byte);  // all of it, state and inputs too
  // Runs this program from now on, unverified, in the memory planned for the first.
  void replace_program(Program program);

  const Program& program() const { return step_->program; }
  const Storages& storages() const { return step_->storages; }
  const Plan& plan() const { return plan_; }
  StaticPlan& memory() { return memory_; }
  Runner& runner() { return running_->runner(); }
  Running& running() { return *running_; }

 private:
  std::unique_ptr<Step> step_;
  Plan plan_;
  Arena own_arena_;
  Arena& arena_;
  StaticPlan memory_;
  RunOptions run_options_;
  std::unique_ptr<Running> running_;
};

// A perceptron to try memories on: `layers` times tanh(x W + b), all `width` wide, over inputs "x"
// and "c" (rows, width); output "loss" = <c, y>. Weights "W0", "b0", "W1", .. With `update`, its
// gradients are outputs "g/W0", .. and a step of plain gradient descent ends it.
Program perceptron(int layers, int64_t rows, int64_t width, bool update);
// Fills its inputs and weights with numbers of that seed.
void feed_perceptron(Running& running, uint32_t seed);

// Uniform in [lo, hi), the same for the same seed.
std::vector<float> random_floats(int64_t n, uint32_t seed, float lo = -1, float hi = 1);
// Whole numbers in [0, below).
std::vector<float> random_ids(int64_t n, uint32_t seed, int below);

// The largest |a - b| over the largest |b|; infinity when the counts differ or a is not finite.
double difference(const std::vector<float>& a, const std::vector<float>& b);

// What ProgramError `work` throws; "" when it throws none.
std::string error_of(const std::function<void()>& work);

// Nodes of this operator.
int count_nodes(const Program& program, const std::string& op);
// The first node of this operator from `from` on; -1 where there is none.
NodeId find_node(const Program& program, const std::string& op, NodeId from = 0);

}  // namespace pal::test
