// A small training on any device, with sparse maps or without, that counts what SparseSteps does.
#pragma once
#include <cstring>
#include <string>
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

// A set of programs, and what a trainer does with them.
struct Training {
  TrainConfig config;
  MemoryConfig memory;
  ProgramSet programs;
  SparseSteps sparse{memory, programs};
  int64_t overflows = 0, sparse_runs = 0, plans = 0;

  Training(int accumulate, double margin, int64_t observe, bool ssdc, Encodings encode = {},
           const Device& device = cpu_device(1))
      : programs({.encode = with(encode, ssdc, margin)}, device) {
    config.accumulate = accumulate;
    config.ema = 0.9;
    memory.ssdc_observe = observe;
    std::vector<MicroBatch> kinds{MicroBatch::only};
    if (accumulate > 1) kinds = {MicroBatch::last, MicroBatch::first, MicroBatch::middle};
    for (const MicroBatch kind : kinds) programs.declare(recorded(kind));
    for (const MicroBatch kind : kinds) {
      if (ssdc) {
        sparse.add(to_string(kind), recorded(kind));
      } else {
        programs.add(to_string(kind), recorded(kind));
      }
    }
    initialise(programs, 3);
  }
  static Encodings with(Encodings encode, bool ssdc, double margin) {
    encode.ssdc = ssdc, encode.ssdc_margin = margin;
    return encode;
  }
  Program recorded(MicroBatch kind) const { return record_step(sparse_network, config, kind); }

  static float* put(Executable& program, int64_t step, int micro_batch, float lowest) {
    const TensorSpec spec{{kBatch, kSize, kSize, kChannels}};
    const auto x = made_up(std::to_string(step) + "/" + std::to_string(micro_batch), spec);
    float* at = reinterpret_cast<float*>(program.input("x"));
    for (size_t i = 0; i < x.size(); ++i) at[i] = x[i] < lowest ? 0 : x[i];
    StepScalars scalars{.learning_rate = 0.05f, .step = int32_t(step), .seed_low = 5, .tokens = 2};
    scalars.micro_batch = micro_batch;
    std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
    return at;
  }

  // One update; the loss of each micro-batch. `lowest`: inputs below are zero.
  std::vector<float> step(int64_t number, float lowest = -2) {
    std::vector<float> losses;
    const int count = int(*config.accumulate);
    for (int i = 0; i < count; ++i) {
      const MicroBatch kind = micro_batch_of(i, count);
      const std::string name = to_string(kind);
      Executable* program = programs.find(name);
      Executable* const dense = program;
      if (sparse.on()) {
        program = &sparse.choose(
            name, [&] { return recorded(kind); }, [&](Executable&) { ++plans; });
      }
      put(*program, number, i, lowest);
      program->run();
      if (program != dense) {
        ++sparse_runs;
        if (!sparse.overflows(name, *program).empty()) {
          ++overflows;
          program = dense;
          put(*program, number, i, lowest);
          program->run();
        }
      }
      if (sparse.on() && program == dense) sparse.observe(name, *dense);
      losses.push_back(*program->output("loss"));
    }
    return losses;
  }

  std::string state() {
    std::string bytes;
    for (const StateTensor& slot : programs.state()) {
      bytes.append(reinterpret_cast<const char*>(slot.data), size_t(slot.spec.bytes()));
    }
    return bytes;
  }
};

}  // namespace pal::test
