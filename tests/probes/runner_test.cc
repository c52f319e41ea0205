// The runner's own promises: poison, finite checks, traces, errors from every queue, the recorded
// peak, and no allocation of ours in a steady step.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/builder.h"
#include "core/error.h"
#include "core/verify.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/tensors/columns.h"
#include "tests/probes/allocations.h"
#include "tests/probes/probe.h"
#include "tests/probes/toy_ops.h"
#include "tests/support/resource_limit.h"

namespace pal::test {
namespace {

constexpr int64_t kN = 96;

// peek reads what remember's operand was, after that operand's life has ended.
Program reading_after_the_end(const float** slot) {
  Builder b;
  Val kept = remember(scale(b.input("x", {{kN}}), 2), slot);
  b.output("kept", kept);
  Builder::Within scope(b, "layer/late");
  b.output("late", peek(kept, slot));
  return b.take();
}

TEST(Runner, PoisonShowsAReadAfterTheEndOfALifetime) {
  const float* slot = nullptr;
  const auto x = random_floats(kN, 1);
  Planned careless(reading_after_the_end(&slot));
  careless.set("x", x);
  careless.run();
  // The bytes happen to be there still, so nothing shows ..
  EXPECT_EQ(careless.floats("late"), careless.floats("kept"));

  // .. until freed bytes are filled with NaN.
  Planned poisoned(reading_after_the_end(&slot), 1, {}, {.poison = true});
  poisoned.set("x", x);
  poisoned.run();
  EXPECT_EQ(poisoned.floats("kept"), careless.floats("kept"));
  for (float late : poisoned.floats("late")) EXPECT_TRUE(std::isnan(late));

  Planned stopped(reading_after_the_end(&slot), 1, {}, {.poison = true, .check_finite = true});
  stopped.set("x", x);
  const std::string error = error_of([&] { stopped.run(); });
  EXPECT_NE(error.find("[peek] made a NaN"), std::string::npos) << error;
  EXPECT_NE(error.find("layer/late"), std::string::npos) << error;
}

TEST(Runner, PoisonLeavesCorrectProgramsAlone) {
  auto build = [] {
    Builder b;
    Val x = b.input("x", {{kN}});
    Val y = tanh(scale(x, 2));
    b.output("y", mul(sigmoid(y), scale(y, 3)));
    return b.take();
  };
  Planned plain(build()), poisoned(build(), 1, {}, {.poison = true});
  for (Planned* p : {&plain, &poisoned}) {
    for (int i = 0; i < 2; ++i) p->set("x", random_floats(kN, 2)), p->run();
  }
  EXPECT_EQ(plain.bytes("y"), poisoned.bytes("y"));
}

// y is read on two queues; its bytes are filled once the other one has read it too.
TEST(Runner, PoisonWaitsForEveryQueue) {
  const auto build = [](bool waits) {
    Builder b;
    Val y = scale(b.input("x", {{kN}}), 2);
    Val other = scale(y, 3), own = scale(y, 5);
    b.output("other", other);
    b.output("own", own);
    b.output("last", scale(other, 2));
    Program p = b.take();
    p.node(1).queue = 1;
    p.node(1).waits = {0};
    p.node(3).waits = {1};
    if (waits) p.node(1).waits = {2};
    if (waits) std::swap(p.nodes[1], p.nodes[2]), p.node(2).waits = {1}, p.node(3).waits = {2};
    p.relink();
    return p;
  };
  for (const bool waits : {false, true}) {
    Planned plain(build(waits)), poisoned(build(waits), 1, {}, {.poison = true});
    for (Planned* p : {&plain, &poisoned}) {
      for (int i = 0; i < 20; ++i) p->set("x", random_floats(kN, 2)), p->run();
    }
    for (const char* name : {"other", "own", "last"}) {
      EXPECT_EQ(plain.bytes(name), poisoned.bytes(name)) << name;
    }
  }
}

TEST(Runner, PoisonShowsAReadAfterTheEndOnAnotherQueue) {
  const float* slot = nullptr;
  Program p = reading_after_the_end(&slot);
  for (NodeId n : p.nodes.ids()) {
    if (std::string(p.node(n).op->name) != "remember") continue;
    p.node(n).queue = 1, p.node(n).waits = {NodeId(n - 1)};
    p.node(NodeId(n + 1)).waits = {n};
  }
  Planned poisoned(p, 1, {}, {.poison = true});
  poisoned.set("x", random_floats(kN, 1));
  poisoned.run();
  for (float late : poisoned.floats("late")) EXPECT_TRUE(std::isnan(late));
}

TEST(Runner, CheckFiniteNamesTheNode) {
  auto build = [](float value) {
    Builder b;
    Val x = b.input("x", {{4, 24}});
    Builder::Within scope(b, "encoder", 3);
    b.output("y", scale(bad_value(scale(x, 2), 77, value), 1));
    return b.take();
  };
  const auto x = random_floats(kN, 3);
  auto run = [&](float value, bool check) {
    Planned p(build(value), 1, {}, {.check_finite = check});
    p.set("x", x);
    return error_of([&] { p.run(); });
  };
  EXPECT_EQ(run(NAN, true),
            "[bad_value] made a NaN in output 0 f32[4,24] at element 77, at node 1 (forward, "
            "encoder t=3)");
  EXPECT_NE(run(-INFINITY, true).find("[bad_value] made an infinity"), std::string::npos);
  EXPECT_EQ(run(1, true), "");
  EXPECT_EQ(run(NAN, false), "");
}

TEST(Runner, ChromeTraceIsJson) {
  Builder b;
  Val x = b.input("x", {{kN}});
  Builder::Within scope(b, "a \"quoted\" \\ scope");
  Val y = scale(x, 2);
  b.output("y", scale(y, 3));
  Program p = b.take();
  p.node(0).queue = 1;
  p.node(1).waits = {0};
  Planned planned(p, 1, {}, {.trace = true});
  planned.run();
  const std::string path = testing::TempDir() + "pal_runner_trace.json";
  planned.runner().write_chrome_trace(path);
  std::ifstream file(path);
  const auto events = nlohmann::json::parse(file);
  ASSERT_EQ(events.size(), 2u);
  const int32_t node[] = {events[0]["args"]["node"], events[1]["args"]["node"]};
  EXPECT_EQ(node[0], 0);
  EXPECT_EQ(node[1], 1);
  EXPECT_EQ(events[0]["ph"], "X");
  EXPECT_EQ(events[0]["tid"], 1);
  EXPECT_EQ(events[1]["tid"], 0);
  EXPECT_EQ(events[0]["name"], "scale");
  EXPECT_EQ(events[0]["cat"], "forward");
  EXPECT_EQ(events[0]["args"]["scope"], "a \"quoted\" \\ scope");
  const double first_end = double(events[0]["ts"]) + double(events[0]["dur"]);
  EXPECT_GE(double(events[1]["ts"]), first_end) << "node 1 waits for node 0";
  EXPECT_GT(planned.runner().node_times()[0], 0);
  EXPECT_NE(error_of([&] { Planned(p).runner().write_chrome_trace(path); }), "")
      << "nothing was traced";
  std::remove(path.c_str());
}

// The compute queue has all of the device's threads, any other one.
TEST(Runner, AKernelIsToldItsQueueAndItsWorkers) {
  const OpDef told{.name = "told",
                   .formula = "the queue and its workers",
                   .infer = [](SpecSpan, const Attrs&) { return Specs{{{2}}}; },
                   .cpu = {.run = [](const KernelArgs& a) {
                     a.output(0)[0] = float(a.queue.id);
                     a.output(0)[1] = float(a.queue.workers);
                   }}};
  Builder b;
  Val x = b.input("x", {{1}});
  b.output("first", b.emit(told, {x}, Attrs())[0]);
  b.output("second", b.emit(told, {x}, Attrs())[0]);
  Program p = b.take();
  p.node(1).queue = 2;
  Planned planned(std::move(p), 3);
  planned.run();
  EXPECT_EQ(planned.floats("first"), (std::vector<float>{0, 3}));
  EXPECT_EQ(planned.floats("second"), (std::vector<float>{2, 1}));
}

// Later nodes are not run, nobody waits for ever, and the error arrives on the caller's thread.
TEST(Runner, ErrorsOnEveryQueueSurface) {
  for (QueueId queue : {QueueId(0), QueueId(1)}) {
    std::atomic<bool> reached{false};
    Builder b;
    Val x = b.input("x", {{kN}});
    Val a = throwing(x);
    Val c = scale(x, 2);
    b.output("c", signal(mul(a, c), &reached));
    Program p = b.take();
    p.node(0).queue = queue;
    p.node(1).queue = QueueId(1 - queue);
    p.node(1).waits = {};
    p.node(2).waits = {0, 1};
    verify(p);
    Planned planned(p);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(error_of([&] { planned.run(); }), "[throwing] as it was told");
      EXPECT_FALSE(reached);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Of two threads that it wants one, or none, has room for its stack: that is said, and one that had
// begun is ended.
TEST(Runner, ThreadsThatTheMachineRefusesAreSaid) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // stacks of threads before are kept
  Builder b;
  Val x = b.input("x", {{kN}});
  for (const char* name : {"a", "b", "c"}) b.output(name, scale(x, 2));
  Program p = b.take();
  for (QueueId queue : {QueueId(1), QueueId(2)}) p.node(NodeId(queue)).queue = queue;
  verify(p);
  const auto plan = [&](int64_t room) {
    const ResourceLimit limit(RLIMIT_AS, addresses_in_use() + room);
    try {
      const Planned planned(p);
    } catch (const Error& error) {
      exit(std::string(error.what()).find("has 3 queues, each with a thread, and the machine") ==
           std::string::npos);
    }
    exit(2);
  };
  for (const int64_t megabytes : {2, 12}) {
    EXPECT_EXIT(plan(megabytes << 20), testing::ExitedWithCode(0), "") << megabytes;
  }
}
#endif

TEST(Runner, RecordedPeakIsThePlans) {
  auto build = [](int64_t scratch) {
    Builder b;
    Val x = b.input("x", {{8, 120}});
    Val wide = tanh(concatenate({x, x, x}));
    b.output("y", sigmoid(with_workspace(slice_columns(wide, 0, 120), scratch)));
    return b.take();
  };
  const auto x = random_floats(8 * 120, 4);
  for (int64_t scratch : {int64_t(64), int64_t(100'000)}) {
    Planned planned(build(scratch));
    planned.set("x", x);
    planned.memory().fill_canary();
    EXPECT_LT(planned.memory().recorded_peak(), planned.peak(Space::device));
    planned.run();
    EXPECT_EQ(planned.memory().recorded_peak(), planned.peak(Space::device));
    EXPECT_EQ(planned.peak(Space::device), planned.plan().device().lower_bound);
  }
  Planned small(build(64)), large(build(100'000));
  EXPECT_GE(large.peak(Space::device), 100'000);
  EXPECT_LT(small.peak(Space::device), 100'000);
}

// Runs an operator's example as a program: every operand an input, or state where it is written.
Program program_of(const OpDef& op, const Example& example) {
  Builder b;
  std::vector<Val> operands;
  for (size_t k = 0; k < example.operands.size(); ++k) {
    auto& operand = example.operands[k];
    const std::string name = "in" + std::to_string(k);
    if (operand.absent) {
      operands.push_back({});
    } else if (op.writes_state) {
      operands.push_back(b.state(name, operand.spec, Role::weight));
    } else {
      operands.push_back(b.input(name, operand.spec));
    }
  }
  std::vector<Val> out = b.emit(op, operands, example.attrs);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!op.writes_state && out[i]) b.output("out" + std::to_string(i), out[i]);
  }
  return b.take();
}

TEST(Allocations, CounterSeesOursAndTheirs) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer owns the allocator";
  std::string grown;
  auto count = count_allocations([&] {
    std::vector<int> v(100);
    grown = std::string(size_t(1000 + v[0]), 'x');  // allocated inside libstdc++, for us
  });
  EXPECT_GE(count.ours, 2);
  EXPECT_EQ(count_allocations([] {}).ours, 0);
}

TEST(Allocations, NoKernelAllocatesInASteadyStep) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer owns the allocator";
  for (const OpDef* op : all_ops()) {
    if (op->examples.empty()) continue;
    Allocations library;
    for (const Example& example : op->examples) {
      Planned planned(program_of(*op, example), 2);
      for (size_t k = 0; k < example.operands.size(); ++k) {
        auto& operand = example.operands[k];
        if (operand.absent || operand.spec.layout) continue;
        const int64_t n = operand.spec.numel();
        planned.set("in" + std::to_string(k), operand.spec.dtype == DType::i32
                                                  ? random_ids(n, 5, int(operand.hi) + 1)
                                                  : random_floats(n, 5, operand.lo, operand.hi));
      }
      planned.run();
      planned.run();
      const Allocations count = count_allocations([&] { planned.run(); });
      EXPECT_EQ(count.ours, 0) << op->name << ": " << count.first_ours;
      if (count.theirs > library.theirs) library = count;
    }
    if (library.theirs) {
      std::printf("  %s: %ld allocations of a library's own, %s\n", op->name, long(library.theirs),
                  library.first_theirs.c_str());
    }
  }
}

// Runner and memory, with loops shared by two threads, and with a second queue.
TEST(Allocations, NoneOfOursInASteadyStep) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer owns the allocator";
  Planned step(perceptron(5, 300, 80, true), 2);
  feed_perceptron(step.running(), 1);
  Builder b;
  Val x = b.input("x", {{kN}});
  b.output("y", add(scale(scale(x, 2), 3), x));
  Program hopping = b.take();
  hopping.node(1).queue = 1, hopping.node(1).waits = {0}, hopping.node(2).waits = {1};
  Planned queues(hopping);
  for (Planned* planned : {&step, &queues}) {
    planned->run();  // the first run starts OpenMP's threads
    const Allocations count = count_allocations([&] {
      for (int i = 0; i < 3; ++i) planned->run();
    });
    EXPECT_EQ(count.ours, 0) << count.first_ours;
    RecordProperty("allocations_of_libraries", int(count.theirs));
  }
}

}  // namespace
}  // namespace pal::test
