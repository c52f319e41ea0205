// What running costs beside the kernels. The runner: nanoseconds a node with kernels that do
// nothing, three operands each. A pool's gate: nanoseconds a decision. The goal of both is at most
// a microsecond. A pool: nanoseconds each time that a job's thread asks or reports, where nobody
// waits, and where each waits for the other all the time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <thread>

#include "core/builder.h"
#include "core/op.h"
#include "core/prepare.h"
#include "core/runner.h"
#include "memory/plan/plan.h"
#include "memory/run/shared_pool.h"
#include "memory/run/static_plan.h"
#include "memory/share/gate.h"
#include "memory/share/zico_gate.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

const OpDef nothing_op{
    .name = "nothing",
    .formula = "",
    .infer = [](SpecSpan in, const Attrs&) { return Specs{in[0]}; },
    .cpu = {.run = [](const KernelArgs&) {}},
};

// Every node reads the results of the three before it; every `hop`-th is on a second queue, and is
// waited for by the next (0: one queue).
Program chain(int nodes, int hop) {
  Builder b;
  const Val x = b.input("x", {{16}});
  Val last[3] = {x, x, x};
  for (int n = 0; n < nodes; ++n) {
    last[n % 3] = b.emit1(nothing_op, {last[0], last[1], last[2]});
  }
  b.output("y", last[(nodes - 1) % 3]);
  Program p = b.take();
  for (NodeId n = 1; hop && n + 1 < p.node_count(); n += hop) {
    p.node(n).queue = 1;
    p.node(n).waits = {n - 1};
    p.node(n + 1).waits = {n};
  }
  return p;
}

void run_chain(benchmark::State& state, int hop, RunOptions options) {
  const Program program = chain(int(state.range(0)), hop);
  const Device device = cpu_device(1);
  KernelCache cache(device);
  const Storages storages = assign_storages(program);
  const Plan plan = make_plan(program, storages, StateLayout(program));
  Arena arena(plan);
  StaticPlan memory(storages, plan, arena);
  Runner runner(program, prepare_all(program, cache), storages, memory, device, options);
  for (auto _ : state) runner.run();
  state.counters["per_node"] =
      benchmark::Counter(double(state.iterations()) * double(state.range(0)),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void Runner_EmptyKernels(benchmark::State& state) { run_chain(state, 0, {}); }
void Runner_EmptyKernelsTraced(benchmark::State& state) { run_chain(state, 0, {.trace = true}); }
// Each hop crosses to another thread and back.
void Runner_TwoQueuesHopEvery100(benchmark::State& state) { run_chain(state, 100, {}); }

// A step of each job takes every region, one a moment, and gives it back; the next job's step
// follows, so that nobody waits.
void Gate_TicketDecisions(benchmark::State& state) {
  const size_t jobs = size_t(state.range(0));
  const int32_t regions = int32_t(state.range(1));
  RegionProgram program{.moments = 2 * regions};
  for (int32_t r = 0; r < regions; ++r) program.uses.push_back({.moment = r, .takes = {r}});
  for (int32_t r = 0; r < regions; ++r) {
    program.uses.push_back({.moment = regions + r, .gives = {regions - 1 - r}});
  }
  const auto gate = ticket_gate(std::vector(jobs, std::vector{program}), regions);
  int64_t decisions = 0;
  bool passed = true;
  for (auto _ : state) {
    // All stay inside their steps to the end, so that each is looked at.
    for (size_t j = 0; j < jobs; ++j) gate->begin_step(JobId(j), 0);
    for (size_t j = 0; j < jobs; ++j) {
      for (const int64_t moment : gate->asks(JobId(j))) {
        passed &= gate->may_pass(JobId(j), moment), ++decisions;
      }
      for (const int64_t moment : gate->reports(JobId(j))) gate->passed(JobId(j), moment);
    }
    for (size_t j = 0; j < jobs; ++j) gate->end_step(JobId(j));
  }
  if (!passed) state.SkipWithError("a step waited that none was before");
  state.counters["per_decision"] = benchmark::Counter(
      double(decisions), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Whether a step may begin under Zico's gate, and every decision within it, each job half a step
// behind the one before it: what is held and will be is followed through all steps under way.
void Gate_ZicoDecisions(benchmark::State& state) {
  const auto jobs = size_t(state.range(0));
  const auto regions = int32_t(state.range(1));
  std::vector<RegionUse> uses;
  for (int32_t r = 0; r < regions; ++r) uses.push_back({2 * r, {r}, {}});
  for (int32_t r = regions - 1; r >= 0; --r) uses.push_back({4 * regions - 2 * r, {}, {r}});
  const int64_t moments = 4 * int64_t(regions) + 2;
  ZicoPool pool{.programs = {}, .region_bytes = 64, .regions = int32_t(jobs) * regions};
  for (size_t j = 0; j < jobs; ++j) {
    auto mine = uses;
    for (RegionUse& use : mine) {
      for (auto* list : {&use.takes, &use.gives}) {
        for (int32_t& r : *list) r += int32_t(j) * regions;
      }
    }
    pool.programs.push_back({{.moments = moments, .uses = std::move(mine)}});
  }
  double clock = 0;
  const auto gate = zico_gate(std::move(pool), &clock, {.first_part = 1});
  std::vector<int64_t> at(jobs, -1);  // the next moment; negative: when its step begins
  int64_t decisions = 0;
  bool passed = true;
  const auto go_on = [&](size_t j) {
    const auto job = JobId(j);
    const int64_t m = at[j]++;
    if (m < 0) return;
    if (m == 0) gate->begin_step(job, 0);
    const auto& asks = gate->asks(job);
    const auto& reports = gate->reports(job);
    if (std::binary_search(asks.begin(), asks.end(), m)) {
      passed &= gate->may_pass(job, m), ++decisions;
    }
    if (std::binary_search(reports.begin(), reports.end(), m)) gate->passed(job, m);
    if (m == moments) gate->end_step(job), at[j] = 0;
  };
  for (size_t j = 0; j < jobs; ++j) {  // each is seen alone
    for (at[j] = 0; clock += 1, go_on(j), at[j] > 0;) {
    }
    at[j] = -1 - int64_t(j) * moments / 2;
  }
  for (auto _ : state) {
    const int64_t before = decisions;
    while (decisions < before + 1000) {
      clock += 1;
      for (size_t j = 0; j < jobs; ++j) go_on(j);
    }
  }
  if (!passed) state.SkipWithError("a step waited that had room");
  state.counters["per_decision"] = benchmark::Counter(
      double(decisions), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Of those, whether a step may begin beside one that is a part of the way through.
void Gate_ZicoBegins(benchmark::State& state) {
  const auto regions = int32_t(state.range(0));
  ZicoPool pool{.programs = {}, .region_bytes = 64, .regions = 2 * regions};
  const int64_t moments = 4 * int64_t(regions) + 2;
  for (int32_t j = 0; j < 2; ++j) {
    RegionProgram program{.moments = moments, .uses = {}};
    for (int32_t r = 0; r < regions; ++r) program.uses.push_back({2 * r, {j * regions + r}, {}});
    for (int32_t r = regions - 1; r >= 0; --r) {
      program.uses.push_back({4 * regions - 2 * r, {}, {j * regions + r}});
    }
    pool.programs.push_back({std::move(program)});
  }
  double clock = 0;
  const auto gate = zico_gate(std::move(pool), &clock, {.first_part = 0.8});
  const auto walk = [&](JobId job, int64_t from, int64_t to) {
    const auto& asks = gate->asks(job);
    const auto& reports = gate->reports(job);
    bool passed = true;
    for (int64_t m = from; m < to; ++m, ++clock) {
      if (std::binary_search(asks.begin(), asks.end(), m)) passed &= gate->may_pass(job, m);
      if (std::binary_search(reports.begin(), reports.end(), m)) gate->passed(job, m);
    }
    return passed;
  };
  bool passed = true;
  for (JobId job = 0; job < 2; ++job) {
    gate->begin_step(job, 0);
    passed &= walk(job, 0, moments + 1);
    gate->end_step(job);
  }
  gate->begin_step(0, 0);
  passed &= walk(0, 0, moments / state.range(1));
  for (auto _ : state) {
    gate->begin_step(1, 0);
    passed &= gate->may_pass(1, 0);
    gate->leave(1);
  }
  if (!passed) state.SkipWithError("a step waited that had room");
}

// What a job's thread does at the edges of a step, with nobody to wait for: it asks and reports at
// each node of a chain under tickets, jobs a step each in turn.
void Pool_AsksAndReports(benchmark::State& state) {
  const Program program = chain(2000, 0);
  const Storages storages = assign_storages(program);
  const Plan plan = make_plan(program, storages, StateLayout(program));
  DeviceProfile device;
  device.f32 = device.vector = device.memory = 1e9, device.launch = 1e-6;
  const StepShape shape = step_shape("chain", program, storages, plan, device);
  CorunWay way{.kind = CorunWay::Kind::tickets, .pool_bytes = 2 * shape.alone_bytes};
  way.placement = place_apart(std::vector<const StepShape*>(2, &shape), way.pool_bytes);
  SharedPool pool(way, 2, way.pool_bytes);
  for (JobId job = 0; job < 2; ++job) pool.add(job, shape, plan);
  int64_t calls = 0;
  for (auto _ : state) {
    for (JobId job = 0; job < 2; ++job) {
      pool.begin_step(job, 0);
      for (const int64_t moment : pool.asks(job)) pool.ask(job, moment), ++calls;
      for (const int64_t moment : pool.reports(job)) pool.report(job, moment), ++calls;
      pool.end_step(job);
    }
  }
  state.counters["per_call"] =
      benchmark::Counter(double(calls), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Two jobs' threads on a circle in which each waits at every moment until the other has passed the
// one before: of the two one always sleeps, and what it comes behind is one report. A node takes no
// time, so that a moment takes what it is to wake a thread.
void Pool_WakesAnotherThread(benchmark::State& state) {
  const Program program = chain(int(state.range(0)), 0);
  const Storages storages = assign_storages(program);
  const Plan plan = make_plan(program, storages, StateLayout(program));
  DeviceProfile device;
  device.f32 = device.vector = device.memory = 1e9, device.launch = 1e-6;
  const StepShape shape = step_shape("chain", program, storages, plan, device);
  CorunWay way{.kind = CorunWay::Kind::circle, .pool_bytes = 2 * shape.alone_bytes};
  const JobOnCircle on_circle{&shape, 1, 0, shape.ticks()};
  way.circle = {.period = shape.ticks(), .jobs = {on_circle, on_circle}};
  way.placement = place_apart(std::vector<const StepShape*>(2, &shape), way.pool_bytes);
  // The first begins: at node n it waits for the other's node n - 1, the other for its node n.
  way.waits.assign(2, CircleWaits::value_type(1));
  for (NodeId n = 0; n < program.node_count(); ++n) {
    if (n > 0) way.waits[0][0].push_back({start_of(n), 1, 0, done_of(n - 1)});
    way.waits[1][0].push_back({start_of(n), 0, 0, done_of(n)});
  }
  SharedPool pool(way, 2, way.pool_bytes);
  for (JobId job = 0; job < 2; ++job) pool.add(job, shape, plan);
  const auto run = [&](JobId job) {
    pool.begin_step(job, 0);
    for (NodeId n = 0; n < program.node_count(); ++n) {
      if (job == 1 || n > 0) pool.ask(job, start_of(n));
      pool.report(job, done_of(n));
    }
    pool.end_step(job);
  };
  const int64_t before = pool.stats(0).waits + pool.stats(1).waits;
  int64_t steps = 0;
  for (auto _ : state) {
    std::thread other([&] { run(1); });
    run(0);
    other.join();
    ++steps;
  }
  const auto waits = double(pool.stats(0).waits + pool.stats(1).waits - before);
  state.counters["per_wait"] =
      benchmark::Counter(waits, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["waits_per_node"] = waits / double(steps) / double(program.node_count());
}

BENCHMARK(Pool_WakesAnotherThread)->Arg(2000)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(Pool_AsksAndReports)->Unit(benchmark::kMicrosecond);
BENCHMARK(Gate_TicketDecisions)->Args({2, 64})->Args({4, 64})->Unit(benchmark::kMicrosecond);
BENCHMARK(Gate_ZicoDecisions)->Args({2, 64})->Args({4, 64})->Unit(benchmark::kMicrosecond);
BENCHMARK(Gate_ZicoBegins)->Args({64, 2})->Args({64, 4})->Unit(benchmark::kMicrosecond);
BENCHMARK(Runner_EmptyKernels)->Arg(1000)->Arg(20000)->Unit(benchmark::kMicrosecond);
BENCHMARK(Gate_ZicoDecisions)->Args({2, 64})->Args({4, 64})->Unit(benchmark::kMicrosecond);
BENCHMARK(Gate_ZicoBegins)->Args({64, 2})->Args({64, 4})->Unit(benchmark::kMicrosecond);
BENCHMARK(Runner_EmptyKernelsTraced)->Arg(20000)->Unit(benchmark::kMicrosecond);
BENCHMARK(Runner_TwoQueuesHopEvery100)->Arg(20000)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pal
