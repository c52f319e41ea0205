// A small training on any device, with sparse maps or without, that counts what SparseSteps does.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/norms/batch_norm.h"
#include "ops/sums/reduce.h"
#include "tests/memory/bits.h"
#include "tests/support/state_bytes.h"
#include "train/loop/initialise.h"
#include "train/loop/sparse_steps.h"
#include "train/loop/step_program.h"

namespace pal::test {

inline constexpr int64_t kBatch = 2, kSize = 12, kChannels = 8;  // maps of 9 kB

// Convolutions, a batch norm with running statistics, dropout and a pool.
inline Recorded sparse_network(Builder& b, Val scalars) {
  Val y = b.input("x", {{kBatch, kSize, kSize, kChannels}});
  Recorded out;
  for (const std::string n : {"0", "1", "2"}) {
    Builder::Within scope(b, "layer" + n);
    const Val w = b.state("w" + n, {{kChannels, 3, 3, kChannels}}, Role::weight,
                          {.kind = Init::Kind::normal, .a = 0.2f});
    y = conv2d(y, w, conv2d_attrs(1, 1));
    if (n == "1") {
      const TensorSpec channels{{kChannels}};
      const BatchNorm norm = batch_norm(y, b.state("gamma", channels, Role::weight, {.a = 1}),
                                        b.state("beta", channels, Role::weight));
      y = norm.y;
      out.moved.push_back({b.state("running", channels, Role::statistic), norm.mean, 0.1f});
    }
    y = relu(y);
    if (n == "0") y = dropout(y, scalars, 0.3f);
  }
  y = max_pool(y, max_pool_attrs(2, 2)).y;
  out.loss = scale(sum_all(mul(y, y)), 1e-3f);
  return out;
}

// What is trained, on what, and how.
struct TrainingSetup {
  std::function<Recorded(Builder&, Val scalars)> forward;
  std::function<void(Executable&, int64_t step, int micro_batch)> put;  // the inputs, scalars too
  TrainConfig config;
  CompileOptions options;
  MemoryConfig memory;
  Device device = cpu_device(1);
};

// A set of programs, and what a trainer does with them.
class Training {
 public:
  explicit Training(TrainingSetup setup)
      : setup_(std::move(setup)),
        programs(setup_.options, setup_.device),
        sparse(setup_.memory, programs) {
    const int count = int(micro_batches(setup_.config));
    for (const MicroBatch kind : kMicroBatches) {
      if ((kind == MicroBatch::only) == (count == 1)) programs.declare(recorded(kind));
    }
    for (const MicroBatch kind : kMicroBatches) {
      if ((kind == MicroBatch::only) != (count == 1)) continue;
      if (sparse.on()) {
        sparse.add(to_string(kind), recorded(kind));
      } else {
        programs.add(to_string(kind), recorded(kind));
      }
    }
    initialise(programs, 3);
  }
  Program recorded(MicroBatch kind) const {
    return record_step(setup_.forward, setup_.config, kind);
  }
  void put(Executable& program, int64_t step, int micro_batch) const {
    setup_.put(program, step, micro_batch);
  }

  // One update; the loss of each micro-batch.
  std::vector<float> step(int64_t number) {
    std::vector<float> losses;
    const int count = int(micro_batches(setup_.config));
    for (int i = 0; i < count; ++i) {
      Executable& program = run(Update(setup_.config, 1).kind(i), number, i);
      losses.push_back(*program.output("loss"));
    }
    return losses;
  }

  std::string state() {
    std::string bytes;
    bytes += state_bytes(programs);
    return bytes;
  }

 private:
  Executable& run(MicroBatch kind, int64_t number, int i) {
    auto ran = [&](Executable& program) -> Executable& {
      put(program, number, i);
      program.run();
      return program;
    };
    const std::string name = to_string(kind);
    Executable& dense = *programs.find(name);
    if (!sparse.on()) return ran(dense);
    Executable& chosen = sparse.choose(
        name, [&] { return recorded(kind); }, [&](Executable&) { ++plans; });
    ran(chosen);
    if (&chosen != &dense) {
      const bool is_sparse = &chosen == programs.find(name + "/sparse");
      sparse_runs += is_sparse, uncounted_runs += !is_sparse;
      const int64_t bytes = chosen.compiled().plan.device().bytes;
      EXPECT_LE(bytes, dense.compiled().plan.device().bytes - int64_t(is_sparse));
      if (sparse.overflows(name, chosen).empty()) return chosen;
      ++overflows;
      ran(dense);
    }
    sparse.observe(name, dense);
    return dense;
  }

  TrainingSetup setup_;

 public:
  ProgramSet programs;
  SparseSteps sparse;
  int64_t overflows = 0, sparse_runs = 0, uncounted_runs = 0, plans = 0;
};

// Of sparse_network. Inputs below `lowest` are zero, which may change from step to step.
struct SparseSetup {
  int accumulate = 1;
  double margin = 1;
  int64_t observe = 1;
  bool ssdc = true;
  Encodings encode = {};
  Device device = cpu_device(1);
  std::shared_ptr<float> lowest = std::make_shared<float>(-2.0f);
};
inline TrainingSetup setup_of(const SparseSetup& given) {
  TrainingSetup setup{
      .forward = sparse_network,
      .put =
          [lowest = given.lowest](Executable& program, int64_t step, int micro_batch) {
            const TensorSpec spec{{kBatch, kSize, kSize, kChannels}};
            const auto x = made_up(std::to_string(step) + "/" + std::to_string(micro_batch), spec);
            float* at = reinterpret_cast<float*>(program.input("x"));
            for (size_t i = 0; i < x.size(); ++i) at[i] = x[i] < *lowest ? 0 : x[i];
            StepScalars scalars{
                .learning_rate = 0.05f, .step = int32_t(step), .seed_low = 5, .tokens = 2};
            scalars.micro_batch = micro_batch;
            std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
          },
      .config = {},
      .options = {.encode = given.encode},
      .memory = {},
      .device = given.device};
  // Else the dense plan is so small that sparse maps have little to win.
  setup.options.fuse_epilogues = false;
  setup.options.encode.ssdc = given.ssdc, setup.options.encode.ssdc_margin = given.margin;
  setup.config.accumulate = given.accumulate;
  setup.config.ema = 0.9;
  setup.memory.ssdc_observe = given.observe;
  return setup;
}

}  // namespace pal::test
