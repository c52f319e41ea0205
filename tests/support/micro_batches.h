// The micro-batches of an update of a toy network: products, dropout, batch norm, gradients summed
// in accumulators; and how they are run, one behind the other or side by side.
#pragma once
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/runner.h"
#include "core/scalars.h"
#include "memory/compile.h"
#include "memory/overlap/compile_pair.h"
#include "memory/overlap/join.h"
#include "memory/run/static_plan.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/norms/batch_norm.h"
#include "ops/products/matmul.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/state.h"
#include "ops/tensors/transfers.h"

namespace pal::test {

struct ToySize {
  int layers = 4;
  int64_t batch = 16, width = 24;
};

// `first`: gradients begin the sums. `last`: the weights are updated by them. Both false: between.
// The inputs are "scalars" and "x", the outputs "loss", "y" and, of the last, "gate".
inline Program toy_micro_batch(bool first, bool last, const ToySize& size = {}) {
  Builder b;
  const Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {{size.batch, size.width}});
  std::vector<Val> weights, sums;
  std::vector<std::string> names;
  const auto weight = [&](const std::string& name, Shape shape) {
    weights.push_back(b.state(name, {shape}, Role::weight));
    names.push_back(name);
    return weights.back();
  };
  std::vector<std::pair<Val, Val>> moved;  // running mean, the batch's
  for (int i = 0; i < size.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    Builder::Within scope(b, layer);
    x = matmul(x, weight(layer + "/w", {size.width, size.width}));
    if (i % 2 == 0) {
      const BatchNorm norm = batch_norm(x, weight(layer + "/gamma", {size.width}),
                                        weight(layer + "/beta", {size.width}));
      moved.emplace_back(b.state(layer + "/mean", {{size.width}}, Role::statistic), norm.mean);
      x = norm.y;
    }
    x = dropout(tanh(x), scalars, 0.25f);
  }
  const Val loss = sum_all(mul(x, x));
  b.output("loss", loss), b.output("y", x);
  for (size_t i = 0; i < weights.size(); ++i) {
    sums.push_back(b.state("sum/" + names[i], weights[i].spec(), Role::weight_gradient));
  }
  const auto gradients = differentiate(b, loss, weights, first ? std::vector<Val>{} : sums);
  Val gate;
  {
    Builder::Within phase(b, Phase::backward);
    gate = clip_norm_gate(scalars, loss, {});
    for (auto& [running, batch] : moved) moving_average(running, batch, 0.1f, gate);
    for (size_t i = 0; i < weights.size() && !last; ++i) assign(sums[i], gradients[i]);
    if (last) {
      b.output("gate", gate);
      apply_optimizer(b, {.kind = OptimizerSpec::Kind::adam}, weights, gradients, scalars, gate);
    }
  }
  return b.take();
}

using Bytes = std::map<std::string, std::vector<std::byte>>;

// What a compiled step and its arena are filled with, and what comes out. Inputs and outputs of
// micro-batch i are called by its number.
class ToyRun {
 public:
  explicit ToyRun(const Device& device = Device{}) : device_(device), arena_(device.accelerator) {}

  // Micro-batches one behind the other.
  void run(const Compiled& c, int step, int micro_batch, RunOptions options = {}) {
    run(c, step, {{"", micro_batch}}, options);
  }
  // Micro-batches i and i + 1 as a pair.
  void run_pair(const Compiled& c, int step, int i, RunOptions options = {}) {
    run(c, step, {{name_in_pair(0, ""), i}, {name_in_pair(1, ""), i + 1}}, options);
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  using Parts = std::vector<std::pair<std::string, int>>;  // prefix of names, micro-batch

  void run(const Compiled& c, int step, const Parts& parts, RunOptions options) {
    const bool fresh = arena_.bytes(Space::device) == 0;
    arena_.reserve(c.plan);
    StaticPlan memory(c.storages, c.plan, arena_);
    Runner runner(c.program, c.kernels, c.storages, memory, device_, options);
    const auto put = [&](ValueId v, const void* from, int64_t bytes) {
      if (!device_.accelerator || c.program.value(v).space == Space::host) {
        std::memcpy(runner.data(v), from, size_t(bytes));
      } else {
        device_.accelerator->copy(kComputeQueue, runner.data(v), from, bytes);
        device_.accelerator->synchronize();
      }
    };
    const auto put_floats = [&](ValueId v, uint32_t seed) {
      std::vector<float> x(size_t(c.program.value(v).spec.numel()));
      for (size_t i = 0; i < x.size(); ++i) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = float(seed >> 8) / float(1 << 24) - 0.5f;
      }
      put(v, x.data(), c.program.value(v).spec.bytes());
    };
    for (const StateSlot& slot : c.program.state) {
      if (fresh || !known_.contains(slot.name)) {
        put_floats(slot.start,
                   slot.name.starts_with("optimizer/v") ? 0 : uint32_t(slot.name.size()));
        if (slot.name.starts_with("optimizer")) {
          const std::vector<float> zeros(size_t(c.program.value(slot.start).spec.numel()));
          put(slot.start, zeros.data(), c.program.value(slot.start).spec.bytes());
        }
      }
      known_[slot.name] = true;
    }
    for (const auto& [prefix, i] : parts) {
      const StepScalars scalars{
          .learning_rate = 0.01f, .step = step, .micro_batch = i, .seed_low = 7, .tokens = 9};
      put(c.program.input(prefix + "scalars"), &scalars, sizeof scalars);
      put_floats(c.program.input(prefix + "x"), uint32_t(31 * step + i));
    }
    runner.run();
    const auto get = [&](const std::string& name, ValueId v) {
      std::vector<std::byte>& to = bytes_[name];
      to.resize(size_t(c.program.value(v).spec.bytes()));
      if (device_.accelerator) {
        device_.accelerator->copy(kComputeQueue, to.data(), runner.data(v), int64_t(to.size()));
        device_.accelerator->synchronize();
      } else {
        std::memcpy(to.data(), runner.data(v), to.size());
      }
    };
    for (const StateSlot& slot : c.program.state) get(slot.name, slot.end);
    for (const auto& [prefix, i] : parts) {
      for (const NamedValue& out : c.program.outputs) {
        if (!out.name.starts_with(prefix)) continue;
        get(std::to_string(i) + " " + out.name.substr(prefix.size()), out.value);
      }
    }
  }

  const Device device_;
  Arena arena_;
  std::map<std::string, bool> known_;
  Bytes bytes_;
};

// The first name whose bytes differ, "" where all are the same.
inline std::string first_other(const Bytes& a, const Bytes& b) {
  for (const auto& [name, bytes] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second != bytes) return name;
  }
  return a.size() == b.size() ? "" : "another number of them";
}

}  // namespace pal::test
