// Runs toy programs under a Memory, and without one, for comparing bits.
#pragma once
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/runner.h"
#include "memory/compile.h"
#include "memory/plan/plan.h"
#include "memory/run/static_plan.h"
#include "memory/storages/lifetimes.h"
#include "memory/storages/storages.h"
#include "tests/support/eval.h"
#include "tests/support/random_program.h"

namespace pal::test {

// The names of all nodes' operators, in order.
inline std::string ops_of(const Program& p) {
  std::string out;
  for (const Node& node : p.nodes) out += std::string(out.empty() ? "" : " ") + node.op->name;
  return out;
}

using Results = std::map<std::string, std::vector<float>>;  // outputs and state at the end

inline std::vector<float> start_values(const std::string& name, int64_t n, int step) {
  std::vector<float> out;
  const float shift = float(name[0] + 3 * name.back() + step);
  for (int64_t i = 0; i < n; ++i)
    out.push_back(0.01f * float((i * 37 + int64_t(shift) * 11) % 101) - 0.5f);
  return out;
}

// `start` sets a state, once; `put` an input, before each step.
template <class Start, class Put>
void run_steps(Evaluator& eval, int steps, const Start& start, const Put& put) {
  for (auto& slot : eval.program().state) start(slot);
  for (int step = 0; step < steps; ++step) {
    for (auto& in : eval.program().inputs) put(in, step);
    eval.run();
    if (step + 1 < steps) eval.next_step();
  }
}

// Every value in a buffer of its own, `steps` times.
inline Results reference(const Program& program, int steps) {
  Evaluator eval(program);
  const auto numel = [&](ValueId v) { return program.value(v).spec.numel(); };
  run_steps(
      eval, steps,
      [&](const auto& slot) {
        eval.set(slot.start, start_values(slot.name, numel(slot.start), 0));
      },
      [&](const auto& in, int step) {
        eval.set(in.value, start_values(in.name, numel(in.value), step));
      });
  Results out;
  for (auto& o : program.outputs) out[o.name] = eval.floats(o.value);
  for (auto& slot : program.state) out[slot.name] = eval.floats(slot.end);
  return out;
}

struct Ready {
  Program program;
  KernelCache cache{Device{}};
  ByNode<std::shared_ptr<const Kernel>> kernels;
  Storages storages;
  StateLayout layout;

  explicit Ready(Program p, const StorageOptions& options = {})
      : program(std::move(p)),
        kernels(prepare_all(program, cache)),
        storages(assign_storages(program, workspace_bytes(kernels), options)),
        layout(program) {}
};

inline std::vector<float> floats_at(const std::byte* data, int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  std::memcpy(out.data(), data, out.size() * sizeof(float));
  return out;
}

inline Results run_program(const Program& program,
                           const ByNode<std::shared_ptr<const Kernel>>& kernels,
                           const Storages& storages, Memory& memory, int steps,
                           RunOptions options = {}) {
  Runner runner(program, kernels, storages, memory, Device{}, options);
  auto fill = [&](ValueId v, const std::vector<float>& x) {
    std::memcpy(runner.data(v), x.data(), x.size() * sizeof(float));
  };
  auto numel = [&](ValueId v) { return program.value(v).spec.numel(); };
  for (auto& slot : program.state) fill(slot.start, start_values(slot.name, numel(slot.start), 0));
  for (int step = 0; step < steps; ++step) {
    for (auto& in : program.inputs) fill(in.value, start_values(in.name, numel(in.value), step));
    runner.run();
  }
  Results out;
  for (auto& o : program.outputs) out[o.name] = floats_at(runner.data(o.value), numel(o.value));
  for (auto& slot : program.state) {
    out[slot.name] = floats_at(runner.data(slot.end), numel(slot.end));
  }
  return out;
}

inline Results run_with(const Ready& r, Memory& memory, int steps, RunOptions options = {}) {
  return run_program(r.program, r.kernels, r.storages, memory, steps, options);
}

// The message of the error that f throws, "" when it throws none.
template <class E = ProgramError, class F> std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace pal::test
