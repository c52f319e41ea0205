// Whole steps on a GPU, emulated or (tests/gpu) real: queues, recording and replaying, memory as
// planned, and training steps beside the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/builder.h"
#include "core/error.h"
#include "core/order.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/optimizer/sgd.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/transfers.h"
#include "tests/emulation/steps_fixture.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

using emulation::Order;

// y = 6 x, by way of host memory, the copies on queues of their own.
Program offloading() {
  Builder b;
  Val x = b.input("x", {{4, 8}});
  Val s = scale(x, 2);
  Val host = b.emit1(copy_out_op, {s});
  Val back = b.emit1(copy_in_op, {host});
  // s lives on, and y is another number than back, so that neither's bytes pass for the other's.
  Val y = add(scale(back, 3), scale(s, 0));
  b.output("y", y);
  Program p = b.take();
  p.value(host.id).space = Space::host;
  const NodeId out = p.value(host.id).producer, in = p.value(back.id).producer;
  p.node(out).phase = Phase::offload, p.node(in).phase = Phase::reload;
  return p;
}
TEST_F(Steps, QueuesWaitForEachOther) {
  for (Order order : {Order::forward, Order::backward}) {
    emulation::settings().order = order;
    CompileOptions options;
    options.schedule = Schedule::program;
    ProgramSet set(options, cuda_device());
    Executable& step = set.add("step", offloading());
    ASSERT_EQ(queue_count(step.program()), 3);
    std::vector<float> x(32);
    for (int run = 0; run < 4; ++run) {  // queued, recorded, replayed
      for (size_t i = 0; i < x.size(); ++i) x[i] = float(i) + 100.0f * float(run);
      std::memcpy(step.input("x"), x.data(), x.size() * sizeof(float));
      const int64_t replays = emulation::graphs_run();
      step.run();
      const float* y = step.output("y");
      for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], 6 * x[i]);
      if (!emulation::real()) {
        EXPECT_EQ(emulation::graphs_run() - replays, run > 0);
      }
    }
  }
}

// A random training step on the CPU and on the GPU, side by side.
class Twin {
 public:
  Twin(uint64_t seed, const Device& device, CompileOptions options = {}) : set_(options, device) {
    step_ = &set_.add("train", random_network(seed));
    uint32_t slot = 0;
    for (StateTensor& s : set_.state()) {
      fill(reinterpret_cast<float*>(s.data), s.spec.numel(), 100 + slot++);
    }
  }
  void feed(int step) {
    for (const NamedValue& input : step_->program().inputs) {
      const TensorSpec& spec = step_->program().value(input.value).spec;
      std::byte* to = step_->input(input.name);
      if (spec == scalars_spec()) {
        const StepScalars scalars{.learning_rate = 0.05f, .step = step, .seed_low = 7};
        std::memcpy(to, &scalars, sizeof scalars);
      } else if (spec.dtype == DType::i32) {
        for (int64_t i = 0; i < spec.numel(); ++i) {
          reinterpret_cast<int32_t*>(to)[i] = int32_t(1 + (i + step) % 3);
        }
      } else {
        fill(reinterpret_cast<float*>(to), spec.numel(), uint32_t(step * 10 + 3));
      }
    }
  }
  void run(int step) {
    feed(step);
    step_->run();
  }
  double loss() { return double(*step_->output("loss")); }
  std::vector<float> weights() {
    std::vector<float> out;
    for (StateTensor& s : set_.state()) {
      const float* x = reinterpret_cast<const float*>(s.data);
      out.insert(out.end(), x, x + s.spec.numel());
    }
    return out;
  }
  ProgramSet& set() { return set_; }
  Executable& step() { return *step_; }

 private:
  static void fill(float* x, int64_t n, uint32_t seed) {
    for (int64_t i = 0; i < n; ++i) {
      x[i] = uniform01(philox({{uint32_t(i), seed, 0, 0}}, 1, 2).x[0]) - 0.5f;
    }
  }
  ProgramSet set_;
  Executable* step_ = nullptr;
};

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::fabs(a[i] - b[i]));
  }
  return most;
}

TEST_F(Steps, TrainsAsTheCpuDoes) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    emulation::settings().order = seed % 2 ? Order::forward : Order::shuffled;
    Twin cpu(seed, cpu_device(1)), gpu(seed, cuda_device());
    const std::vector<float> first = cpu.weights();
    for (int step = 0; step < 4; ++step) {
      cpu.run(step), gpu.run(step);
      EXPECT_NEAR(cpu.loss(), gpu.loss(), 2e-5 * std::max(1.0, std::fabs(cpu.loss())))
          << "seed " << seed << " step " << step;
    }
    EXPECT_LT(largest_difference(cpu.weights(), gpu.weights()), 1e-4f) << "seed " << seed;
    EXPECT_GT(largest_difference(first, gpu.weights()), 1e-4f) << "seed " << seed;
  }
}

// Steps follow one another without waiting: the loss is read once, at the end.
TEST_F(Steps, StepsAreQueuedAndTheLossIsReadWhenAskedFor) {
  Twin waited(3, cuda_device()), queued(3, cuda_device());
  for (int step = 0; step < 5; ++step) {
    waited.run(step), (void)waited.loss();
    queued.run(step);
    if (!emulation::real()) {
      EXPECT_GT(emulation::pending_work(), 0);
    }
  }
  EXPECT_EQ(waited.loss(), queued.loss());
  EXPECT_EQ(waited.weights(), queued.weights());
}

// Recording is what running is: bit for bit, also after the state was rewritten and the arena
// moved.
TEST_F(Steps, ReplaysGiveTheBitsOfRuns) {
  Device plain = cuda_device();
  plain.graphs = false;
  Twin eager(5, plain), recorded(5, cuda_device());
  const int64_t before = emulation::graphs_run();
  for (int step = 0; step < 3; ++step) eager.run(step);
  if (!emulation::real()) {
    EXPECT_EQ(emulation::graphs_run(), before);
  }
  for (int step = 0; step < 3; ++step) recorded.run(step);
  EXPECT_EQ(recorded.weights(), eager.weights());
  if (!emulation::real()) {
    EXPECT_EQ(emulation::graphs_run(), before + 2);
  }
  for (Twin* twin : {&eager, &recorded}) {
    for (StateTensor& s : twin->set().state()) reinterpret_cast<float*>(s.data)[0] += 0.25f;
    Builder b;
    b.output("y", relu(b.input("x", {{300, 300}})));
    twin->set().add("large", b.take());
    for (int step = 3; step < 6; ++step) twin->run(step);
  }
  EXPECT_EQ(recorded.weights(), eager.weights());
  EXPECT_EQ(recorded.loss(), eager.loss());
}

// Poison and canaries work there too: nothing outside the plan is touched, no freed byte is read.
TEST_F(Steps, ArenaIsTouchedAsPlanned) {
  Twin plain(8, cuda_device()), poisoned(8, cuda_device());
  poisoned.step().runner().set_options({.poison = true});
  poisoned.step().memory().fill_canary();
  for (int step = 0; step < 2; ++step) plain.run(step), poisoned.run(step);
  EXPECT_EQ(plain.loss(), poisoned.loss());
  EXPECT_EQ(plain.weights(), poisoned.weights());
  // A library may leave the end of its workspace alone.
  const int64_t planned = poisoned.step().compiled().plan.device().bytes;
  EXPECT_LE(poisoned.step().memory().recorded_peak(), planned);
  EXPECT_GT(poisoned.step().memory().recorded_peak(), planned / 2);
}

// Managers and planned swapping: other addresses, copies on queues of their own, the same bits, run
// and replayed.
TEST_F(Steps, WhatLeavesTheDeviceComesBackAsItWas) {
  int64_t copies = 0, again = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    emulation::settings().order = seed % 2 ? Order::shuffled : Order::backward;
    Twin plain(seed, cuda_device());
    for (int step = 0; step < 4; ++step) plain.run(step);
    const int64_t bytes = plain.step().compiled().plan.device().bytes;
    for (int way = 0; way < 3; ++way) {
      CompileOptions options;
      options.budget = bytes / 10 * 7, options.must_fit = false;
      if (way == 0) options.dynamic.manager = Manager::delta;
      if (way == 1) options.dynamic.manager = Manager::dtr;
      if (way == 2) options.swap.method = Swap::planned;
      Twin other(seed, cuda_device(), options);
      if (seed > 4) other.step().runner().set_options({.poison = true});
      if (const auto& traffic = other.step().compiled().traffic) {
        copies += traffic->offloads + traffic->reloads, again += traffic->recomputes;
      }
      for (int step = 0; step < 4; ++step) other.run(step);
      EXPECT_EQ(other.loss(), plain.loss()) << "seed " << seed << " way " << way;
      EXPECT_EQ(other.weights(), plain.weights()) << "seed " << seed << " way " << way;
    }
  }
  EXPECT_GT(copies, 0);
  EXPECT_GT(again, 0);
}

// Each copy, allocation and pinning fails in turn: an error that says what, and no hang; what runs
// afterwards is not harmed.
TEST_F(Steps, FailuresOfTheDeviceAreErrors) {
  if (emulation::real()) GTEST_SKIP() << "a real one does not fail when told to";
  CompileOptions options;
  options.budget = 1, options.must_fit = false, options.dynamic.manager = Manager::delta;
  const auto run = [&] {
    Twin twin(2, cuda_device(), options);
    for (int step = 0; step < 3; ++step) twin.run(step);
    return twin.weights();
  };
  const std::vector<float> expected = run();
  int64_t emulation::Settings::*const kinds[] = {&emulation::Settings::good_copies,
                                                 &emulation::Settings::good_allocations,
                                                 &emulation::Settings::good_pins};
  for (const auto kind : kinds) {
    int failures = 0, named = 0;
    for (int64_t good = 0;; ++good) {
      emulation::settings().*kind = good;
      try {
        testing::internal::CaptureStderr();
        const std::vector<float> weights = run();
        const std::string said = testing::internal::GetCapturedStderr();
        EXPECT_EQ(weights, expected);
        // What fails as it is recorded is run instead.
        if (std::exchange(emulation::settings().*kind, -1) < 0) continue;
        EXPECT_EQ(said, "");
        break;
      } catch (const Error& error) {
        testing::internal::GetCapturedStderr();
        emulation::settings().*kind = -1;
        ++failures;
        named += std::string(error.what()).find(", at node") != std::string::npos;
        EXPECT_NE(std::string(error.what()), "");
      }
      ASSERT_EQ(run(), expected) << "after a failure";
    }
    EXPECT_GT(failures, 0);
    if (kind == &emulation::Settings::good_copies) {
      EXPECT_GT(named, 0) << "a step's own copies name their node";
    }
  }
}

// Nodes that are timed are queued as ever, or recorded and replayed once: the device's clock tells,
// and the host waits at the end.
TEST_F(Steps, NodesAreTimedByTheDevice) {
  for (const bool record : {false, true}) {
    Device device = cuda_device();
    device.graphs = record;
    Twin plain(4, device), traced(4, device);
    RunOptions options = traced.step().runner().options();
    options.trace = true;
    traced.step().runner().set_options(options);
    for (int step = 0; step < 4; ++step) plain.run(step);
    const std::vector<float> weights = plain.weights();
    for (int step = 0; step < 4; ++step) {
      const int64_t before = emulation::waits_made(), replays = emulation::graphs_run();
      traced.run(step);
      if (!record) {
        EXPECT_LE(emulation::waits_made() - before, 3) << "one for each queue, and inputs";
      }
      if (!emulation::real()) {
        EXPECT_EQ(emulation::graphs_run() - replays, record && step > 0) << "after the first";
      }
      int64_t all = 0, last = 0;
      for (const Runner::Span& span : traced.step().runner().spans()) {
        EXPECT_GE(span.end, span.begin);
        EXPECT_GE(span.begin, last - 1000) << "one after the other";  // rounded
        all += span.end - span.begin, last = span.begin;
      }
      EXPECT_GT(all, 0);
    }
    EXPECT_EQ(traced.weights(), weights);
  }
}

// A library's call that cannot be recorded ends no run.
TEST_F(Steps, WhatFailsAsItIsRecordedRunsNodeByNode) {
  if (emulation::real()) GTEST_SKIP() << "a real library is recorded or not";
  Twin plain(2, cuda_device());
  for (int step = 0; step < 4; ++step) plain.run(step);
  emulation::settings().libraries_recorded = false;
  testing::internal::CaptureStderr();
  for (int again = 0; again < 2; ++again) {
    Twin twin(2, cuda_device());
    const int64_t replays = emulation::graphs_run();
    for (int step = 0; step < 4; ++step) twin.run(step);
    EXPECT_EQ(emulation::graphs_run(), replays);
    EXPECT_FALSE(twin.step().runner().has_recording());
    EXPECT_EQ(twin.weights(), plain.weights());
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("warning: a step is not recorded, and runs node by node: ["), 0u) << said;
  EXPECT_NE(said.find("at node "), std::string::npos) << said;
}

// Programs of a set lie over one another. Whoever takes turns without anybody reading, every step
// has the inputs that it was given, in the device's memory and in the host's.
TEST_F(Steps, ProgramsTakeTurnsWithTheirOwnInputs) {
  auto weights = [](const Device& device, Space space) {
    ProgramSet set({}, device);
    std::vector<Executable*> steps;
    for (const int64_t rows : {3, 400}) {  // the one's inputs lie over the other's results
      Builder b;
      Val scalars = step_scalars(b.input("scalars", scalars_spec(), space));
      Val w = b.state("w", {{8}}, Role::weight);
      Val x = relu(b.input("x", {{rows, 8}}));
      sgd(w, sum_leading(scale(x, 0.5f)), scalars);
      steps.push_back(&set.add(std::to_string(rows), b.take()));
    }
    int number = 0;
    for (const int which : {0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 1, 0, 1}) {
      Executable& step = *steps[size_t(which)];
      const StepScalars scalars{.learning_rate = 0.1f * float(number++ % 5)};
      std::memcpy(step.input("scalars"), &scalars, sizeof scalars);
      const int64_t n = step.program().value(step.program().input("x")).spec.numel();
      std::fill_n(reinterpret_cast<float*>(step.input("x")), n, float(number % 7));
      step.run();
    }
    const float* w = reinterpret_cast<const float*>(set.state()[0].data);
    return std::vector<float>(w, w + 8);
  };
  for (Order order : {Order::forward, Order::backward}) {
    emulation::settings().order = order;
    for (Space space : {Space::host, Space::device}) {
      const std::vector<float> want = weights(cpu_device(1), space);
      EXPECT_EQ(weights(cuda_device(), space), want);
      EXPECT_GT(std::fabs(want[0]), 1);
    }
  }
}

}  // namespace
}  // namespace pal::test
