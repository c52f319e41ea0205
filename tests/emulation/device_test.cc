// The GPU as the framework sees it: what is said where there is none, memory, queues and events,
// steps that are recorded and replayed, and whole training steps beside the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/cuda_device.h"
#include "core/error.h"
#include "core/order.h"
#include "core/scalars.h"
#include "memory/program_set.h"
#include "ops/activations.h"
#include "ops/add.h"
#include "ops/arithmetic.h"
#include "ops/copies.h"
#include "ops/sgd.h"
#include "tests/emulation/emulation.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

using emulation::Order;

class Gpu : public testing::Test {
 protected:
  void SetUp() override { emulation::settings() = {}; }
  void TearDown() override { emulation::settings() = {}; }
  static std::string refusal() {
    try {
      cuda_device();
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  }
};

TEST_F(Gpu, SaysWhyThereIsNone) {
  emulation::settings().driver = 0;
  EXPECT_NE(refusal().find("no NVIDIA driver"), std::string::npos) << refusal();
  emulation::settings() = {.driver = 12040};
  EXPECT_NE(refusal().find("is for CUDA 12.4, this build needs 13.0"), std::string::npos)
      << refusal();
  emulation::settings() = {.devices = 0};
  EXPECT_NE(refusal().find("there is no GPU"), std::string::npos) << refusal();
  emulation::settings() = {.major = 7, .minor = 0};
  EXPECT_NE(refusal().find("compute capability 7.0, 7.5 is the least"), std::string::npos)
      << refusal();
  EXPECT_EQ(refusal().find('\n'), std::string::npos);
  emulation::settings() = {.major = 7, .minor = 5};
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(cuda_device().accelerator->description(),
            "Emulated GPU, 16 GiB, compute capability 7.5");
}

TEST_F(Gpu, MemoryIsZeroedAndLimited) {
  emulation::settings().memory = 1 << 20;
  auto gpu = cuda_device().accelerator;
  std::byte* p = gpu->allocate(Space::device, 1 << 19);
  for (int i = 0; i < (1 << 19); ++i) ASSERT_EQ(p[i], std::byte{0});
  EXPECT_EQ(gpu->free_bytes(), 1 << 19);
  try {
    gpu->allocate(Space::device, 1 << 20);
    ADD_FAILURE() << "more than there is";
  } catch (const BudgetError& error) {
    EXPECT_NE(std::string(error.what()).find("524288 bytes free, the arena needs 1048576"),
              std::string::npos)
        << error.what();
  }
  gpu->release(Space::device, p);
  EXPECT_EQ(gpu->free_bytes(), 1 << 20);
}

TEST_F(Gpu, NothingRunsBeforeItIsWaitedFor) {
  auto gpu = cuda_device().accelerator;
  int from = 1, to = 0;
  gpu->copy(kComputeQueue, &to, &from, sizeof to);
  from = 2;
  EXPECT_EQ(to, 0);
  auto event = gpu->make_event();
  gpu->record(event, kComputeQueue);
  gpu->wait(event);
  EXPECT_EQ(to, 2);
}

// A failed call names the file, the line and the node.
const OpDef failing_op{
    .name = "test_failing",
    .formula = "fails",
    .infer = [](SpecSpan in, const Attrs&) { return Specs{in[0]}; },
    .cuda = nullptr,
};
const Backend failing_cuda{.run = [](const KernelArgs&) {
  check_cuda(cudaErrorMemoryAllocation);  // the line that the message names
}};
TEST_F(Gpu, FailedCallsNameTheirNode) {
  OpDef op = failing_op;
  op.cuda = &failing_cuda;
  Builder b;
  Builder::Within scope(b, "encoder");
  b.output("y", b.emit1(op, {b.input("x", {Shape{4}})}));
  ProgramSet set({}, cuda_device());
  Executable& step = set.add("step", b.take());
  try {
    step.run();
    ADD_FAILURE() << "no error";
  } catch (const ProgramError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("[test_failing] device_test.cc:"), 0u) << text;
    EXPECT_NE(text.find("out of memory"), std::string::npos) << text;
    EXPECT_NE(text.find("at node 0 (forward, encoder)"), std::string::npos) << text;
  }
}

// y = 6 x, by way of host memory, the copies on a queue of their own.
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
  p.node(out).queue = p.node(in).queue = 1;
  p.node(out).phase = Phase::offload, p.node(in).phase = Phase::reload;
  p.node(out).waits = {p.value(s.id).producer};
  p.node(in + 1).waits = {in};
  return p;
}
TEST_F(Gpu, QueuesWaitForEachOther) {
  for (Order order : {Order::forward, Order::backward}) {
    emulation::settings().order = order;
    CompileOptions options;
    options.schedule = Schedule::program;
    ProgramSet set(options, cuda_device());
    Executable& step = set.add("step", offloading());
    ASSERT_EQ(queue_count(step.program()), 2);
    std::vector<float> x(32);
    for (int run = 0; run < 4; ++run) {  // queued, recorded, replayed
      for (size_t i = 0; i < x.size(); ++i) x[i] = float(i) + 100.0f * float(run);
      std::memcpy(step.input("x"), x.data(), x.size() * sizeof(float));
      const int64_t replays = emulation::graphs_run();
      step.run();
      const float* y = step.output("y");
      for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], 6 * x[i]);
      EXPECT_EQ(emulation::graphs_run() - replays, run > 0);
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

TEST_F(Gpu, TrainsAsTheCpuDoes) {
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
TEST_F(Gpu, StepsAreQueuedAndTheLossIsReadWhenAskedFor) {
  Twin waited(3, cuda_device()), queued(3, cuda_device());
  for (int step = 0; step < 5; ++step) {
    waited.run(step), (void)waited.loss();
    queued.run(step);
    EXPECT_GT(emulation::pending_work(), 0);
  }
  EXPECT_EQ(waited.loss(), queued.loss());
  EXPECT_EQ(waited.weights(), queued.weights());
}

// Recording is what running is: bit for bit, also after the state was rewritten and the arena
// moved.
TEST_F(Gpu, ReplaysGiveTheBitsOfRuns) {
  Twin eager(5, cuda_device()), recorded(5, cuda_device());
  eager.step().runner().set_options({});
  const int64_t before = emulation::graphs_run();
  for (int step = 0; step < 3; ++step) eager.run(step);
  EXPECT_EQ(emulation::graphs_run(), before);
  for (int step = 0; step < 3; ++step) recorded.run(step);
  EXPECT_EQ(recorded.weights(), eager.weights());
  EXPECT_EQ(emulation::graphs_run(), before + 2);
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
TEST_F(Gpu, ArenaIsTouchedAsPlanned) {
  Twin plain(8, cuda_device()), poisoned(8, cuda_device());
  poisoned.step().runner().set_options({.poison = true});
  poisoned.step().memory().fill_canary();
  for (int step = 0; step < 2; ++step) plain.run(step), poisoned.run(step);
  EXPECT_EQ(plain.loss(), poisoned.loss());
  EXPECT_EQ(plain.weights(), poisoned.weights());
  EXPECT_EQ(poisoned.step().memory().recorded_peak(),
            poisoned.step().compiled().plan.device().bytes);
}

TEST_F(Gpu, FindsTheNodeThatMakesANan) {
  Builder b;
  Val x = b.input("x", {Shape{8}});
  b.output("y", mul(scale(x, 2), x));
  ProgramSet set({}, cuda_device());
  Executable& step = set.add("step", b.take());
  reinterpret_cast<float*>(step.input("x"))[3] = INFINITY;
  step.run();
  EXPECT_TRUE(std::isinf(step.output("y")[3]));
  step.runner().set_options({.check_finite = true});
  try {
    step.run();
    ADD_FAILURE() << "not found";
  } catch (const ProgramError& error) {
    EXPECT_NE(std::string(error.what()).find("[scale] made an infinity in output 0"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace pal::test
