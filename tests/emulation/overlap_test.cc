// Two micro-batches on two streams of a GPU, emulated or (tests/gpu) real: the bits of one behind
// the other in every order of the streams, and a wait that is dropped shows.
#include <gtest/gtest.h>

#include "core/order.h"
#include "memory/run/program_set.h"
#include "tests/emulation/fixture.h"
#include "tests/support/micro_batches.h"

namespace pal::test {
namespace {

using emulation::Order;

class Overlap : public OnGpu {
 protected:
  void prepare() override {
    device_ = cuda_device();
    layout_.add(first_), layout_.add(last_);
    options_.profile = DeviceProfile{};
    options_.profile->name = "half full", options_.profile->units = 400;
    options_.profile->f32 = options_.profile->vector = 1e12, options_.profile->memory = 1e11;
    options_.profile->tile = 64, options_.profile->launch = 1e-6;
  }

  Bytes one_by_one() {
    KernelCache cache(device_);
    const Compiled a = compile(first_, cache, layout_, options_);
    const Compiled b = compile(last_, cache, layout_, options_);
    ToyRun run(device_);
    for (int step = 0; step < 2; ++step) run.run(a, step, 0), run.run(b, step, 1);
    return run.bytes();
  }
  Bytes beside(const Compiled& c) {
    ToyRun run(device_);
    for (int step = 0; step < 2; ++step) run.run_pair(c, step, 0);
    return run.bytes();
  }

  Device device_;
  Program first_ = toy_micro_batch(true, false), last_ = toy_micro_batch(false, true);
  StateLayout layout_;
  CompileOptions options_;
};

TEST_F(Overlap, BitsInEveryOrderOfTheStreams) {
  const Bytes expected = one_by_one();
  KernelCache cache(device_);
  const Compiled c = compile_pair(first_, last_, cache, layout_, options_, PairQueues::two).step;
  ASSERT_EQ(queue_count(c.program), 2);
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    EXPECT_EQ(first_other(expected, beside(c)), "");
  }
}

TEST_F(Overlap, ADroppedWaitShows) {
  if (emulation::real()) GTEST_SKIP() << "a real device may be in time by luck";
  const Bytes expected = one_by_one();
  KernelCache cache(device_);
  const Compiled c = compile_pair(first_, last_, cache, layout_, options_, PairQueues::two).step;
  int shown = 0, dropped = 0;
  for (NodeId n : c.program.nodes.ids()) {
    if (c.program.node(n).waits.empty()) continue;
    Compiled lost = c;
    lost.program.node(n).waits.clear();
    ++dropped;
    bool shows = false;
    for (const Order order : {Order::forward, Order::backward}) {
      emulation::settings().order = order;
      shows |= first_other(expected, beside(lost)) != "";
    }
    shown += shows;
  }
  // Not each of them in these two orders, where a later wait may come in time by luck.
  EXPECT_GE(shown, 5) << "of " << dropped;
  Compiled lost = c;
  for (Node& node : lost.program.nodes) node.waits.clear();
  emulation::settings().order = Order::backward;
  EXPECT_NE(first_other(expected, beside(lost)), "");
}

// By way of a program set: queued, recorded, replayed.
TEST_F(Overlap, ASetRunsPairsOnTwoQueues) {
  ProgramSet apart(options_, device_), together(options_, device_);
  const auto fill = [](Executable& program, int step, int i) {
    const StepScalars scalars{
        .learning_rate = 0.01f, .step = step, .micro_batch = i, .seed_low = 7, .tokens = 9};
    std::memcpy(program.input("scalars"), &scalars, sizeof scalars);
    float* x = reinterpret_cast<float*>(program.input("x"));
    for (int64_t e = 0; e < 16 * 24; ++e) x[e] = float((e * 37 + 11 * step + 5 * i) % 101) / 101;
  };
  apart.declare(first_), apart.declare(last_);
  Executable &a = apart.add("a", first_), &b = apart.add("b", last_);
  Executable& pair = together.add_pair("ab", first_, last_);
  EXPECT_EQ(queue_count(pair.program()), 2);
  for (ProgramSet* set : {&apart, &together}) {
    for (StateTensor& s : set->state()) {
      float* x = reinterpret_cast<float*>(s.data);
      const bool zero = s.name.starts_with("optimizer");
      for (int64_t e = 0; e < s.spec.numel(); ++e) x[e] = zero ? 0 : float((e * 31) % 17 - 8) / 40;
    }
  }
  for (const Order order : {Order::forward, Order::backward, Order::shuffled}) {
    emulation::settings().order = order;
    for (int step = 0; step < 4; ++step) {
      fill(a, step, 0), a.run();
      const float first = *a.output("loss");
      fill(b, step, 1), b.run();
      for (int part = 0; part < 2; ++part) pair.look_at(part), fill(pair, step, part);
      pair.run();
      pair.look_at(0);
      EXPECT_EQ(*pair.output("loss"), first);
      pair.look_at(1);
      EXPECT_EQ(*pair.output("loss"), *b.output("loss"));
    }
  }
  auto left = apart.state(), right = together.state();
  ASSERT_EQ(left.size(), right.size());
  for (StateTensor& s : left) {
    for (StateTensor& t : right) {
      if (s.name == t.name) {
        EXPECT_EQ(std::memcmp(s.data, t.data, size_t(s.spec.bytes())), 0) << s.name;
      }
    }
  }
}

}  // namespace
}  // namespace pal::test
