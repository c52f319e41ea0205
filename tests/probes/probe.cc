// Planning, running and comparing for the probes.
#include "tests/probes/probe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/differentiate.h"
#include "core/error.h"
#include "core/op.h"
#include "core/philox.h"
#include "core/verify.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/state.h"
#include "tests/support/eval.h"

namespace pal::test {

Step::Step(Program p, int threads, const StorageOptions& options)
    : program(std::move(p)), device(cpu_device(threads)) {
  KernelCache cache(device);
  kernels = prepare_all(program, cache);
  for (auto& kernel : kernels) workspace.push_back(kernel->prepared.workspace);
  storages = assign_storages(program, workspace, options);
}

Running::Running(const Step& step, Memory& memory, RunOptions options)
    : program_(step.program),
      runner_(step.program, step.kernels, step.storages, memory, step.device, options) {}

ValueId Running::find(const std::string& name) const {
  for (auto& out : program_.outputs) {
    if (out.name == name) return out.value;
  }
  if (const StateSlot* slot = program_.find_state(name)) return slot->start;
  return program_.input(name);
}

void Running::set(const std::string& name, const std::vector<float>& numbers) {
  const ValueId v = find(name);
  const std::vector<std::byte> coded = encode(program_.value(v).spec, numbers);
  std::memcpy(runner_.data(v), coded.data(), coded.size());
}

void Running::set_scalars(const std::string& name, const StepScalars& scalars) {
  std::memcpy(runner_.data(program_.input(name)), &scalars, sizeof scalars);
}

std::vector<std::byte> Running::bytes(const std::string& name) {
  const ValueId v = find(name);
  const std::byte* data = runner_.data(v);
  return {data, data + program_.value(v).spec.bytes()};
}

std::vector<float> Running::floats(const std::string& name) {
  return decode(program_.value(find(name)).spec, bytes(name));
}

Planned::Planned(Program program, int threads, const StorageOptions& options,
                 RunOptions run_options)
    : step_(std::make_unique<Step>(std::move(program), threads, options)),
      plan_(make_plan(step_->program, step_->storages, StateLayout(step_->program))),
      own_arena_(plan_),
      arena_(own_arena_),
      memory_(step_->storages, plan_, arena_),
      run_options_(run_options) {
  check(step_->program);
  running_ = std::make_unique<Running>(*step_, memory_, run_options_);
}

Planned::Planned(Program program, const StateLayout& layout, Arena& arena)
    : step_(std::make_unique<Step>(std::move(program))),
      plan_(make_plan(step_->program, step_->storages, layout)),
      arena_(arena),
      memory_(step_->storages, plan_, (arena.reserve(plan_), arena)) {
  check(step_->program);
  running_ = std::make_unique<Running>(*step_, memory_, run_options_);
}

void Planned::fill_arena(int byte) {
  for (Space space : {Space::device, Space::host}) {
    if (arena_.bytes(space)) std::memset(arena_.base(space), byte, size_t(arena_.bytes(space)));
  }
}

void Planned::replace_program(Program program) {
  running_.reset();  // its runner refers to the program that goes
  step_->program = std::move(program);
  running_ = std::make_unique<Running>(*step_, memory_, run_options_);
}

Program perceptron(int layers, int64_t rows, int64_t width, bool update) {
  Builder b;
  Val x = b.input("x", {{rows, width}}), c = b.input("c", {{rows, width}});
  std::vector<Val> weights;
  for (int i = 0; i < layers; ++i) {
    Builder::Within scope(b, "layer/" + std::to_string(i));
    weights.push_back(b.state("W" + std::to_string(i), {{width, width}}, Role::weight));
    weights.push_back(b.state("b" + std::to_string(i), {{width}}, Role::weight));
    x = tanh(linear(x, weights[weights.size() - 2], weights.back()));
  }
  Val loss = sum_all(mul(x, c));
  b.output("loss", loss);
  if (update) {
    const auto g = differentiate(b, loss, weights);
    for (size_t i = 0; i < g.size(); ++i) {
      b.output("g/" + b.program().state[i].name, g[i]);
      assign(weights[i], sub(weights[i], scale(g[i], 0x1p-6f)));
    }
  }
  Program p = b.take();
  verify(p);
  return p;
}

void feed_perceptron(Running& running, uint32_t seed) {
  const Program& p = running.program();
  auto fill = [&](const std::string& name, ValueId v) {
    running.set(name, random_floats(p.value(v).spec.numel(), ++seed * 97));
  };
  for (auto& in : p.inputs) fill(in.name, in.value);
  for (auto& slot : p.state) fill(slot.name, slot.start);
}

std::vector<float> random_floats(int64_t n, uint32_t seed, float lo, float hi) {
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = draw({seed, 0, 0, 1}, uint64_t(i) / 4).x[i % 4];
    out.push_back(lo + (hi - lo) * uniform01(bits));
  }
  return out;
}

std::vector<float> random_ids(int64_t n, uint32_t seed, int below) {
  std::vector<float> out = random_floats(n, seed, 0, float(below));
  for (float& x : out) x = std::min(std::floor(x), float(below - 1));
  return out;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double apart = 0, largest = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return std::numeric_limits<double>::infinity();
    apart = std::max(apart, std::fabs(double(a[i]) - b[i]));
    largest = std::max(largest, std::fabs(double(b[i])));
  }
  return apart / largest;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const ProgramError& error) {
    return error.what();
  }
  return "";
}

int count_nodes(const Program& program, const std::string& op) {
  return int(std::count_if(program.nodes.begin(), program.nodes.end(),
                           [&](const Node& node) { return node.op->name == op; }));
}

NodeId find_node(const Program& program, const std::string& op, NodeId from) {
  for (NodeId n = from; n < program.node_count(); ++n) {
    if (program.node(n).op->name == op) return n;
  }
  return kNone;
}

}  // namespace pal::test
