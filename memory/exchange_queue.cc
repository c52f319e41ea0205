// Simulated orders, the best of which is placed.
#include "memory/exchange_queue.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/verify.h"
#include "memory/more_bytes.h"
#include "memory/pass.h"
#include "memory/price/exchange_times.h"
#include "memory/schedule/queue_exchanges.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

// A queue costs threads that wait for each other: for less than this part of the step it is not
// worth it.
constexpr double kLeastGain = 0.01;
// A step may take longer than the fastest by this part of what that gains, for fewer bytes.
constexpr double kNearlyFastest = 0.05;
// Parts of what exchanges hold together that they may hold at once.
constexpr int64_t kLimits[] = {1, 4, 16};
// What an exchange may be late without holding up the computation, in parts of its time.
constexpr double kSlack = 0.5;
// Without a budget: of the bytes of the plan without a queue.
constexpr double kMoreBytes = 0.1;

// A way to have a queue, and what it comes to, once that has been asked for.
struct QueuedStep {
  Program program;
  double step_ms = 0;
  std::optional<Passed> passed;
  Storages storages;
  int64_t peak = 0;
};

std::vector<QueuedStep> queued_steps(const Program& program, const ByNode<double>& node_ms) {
  std::vector<QueuedStep> out;
  for (const int64_t part : kLimits) {
    const int64_t most = part == 1 ? kAnyBytes : exchanged_bytes(program) / part;
    for (const EarlyOperands early :
         {EarlyOperands::none, EarlyOperands::sole, EarlyOperands::all}) {
      QueuedProgram queued =
          queue_exchanges(program, node_ms, {.early = early, .most_held = most, .slack = kSlack});
      ByNode<double> ms;
      for (const NodeId n : queued.order) ms.push_back(node_ms[n]);
      const double step_ms = step_ms_of(queued.program, ms);
      out.push_back({std::move(queued.program), step_ms});
    }
  }
  return out;
}

void find_peak(QueuedStep& step, KernelCache& cache, const CompileOptions& options) {
  if (step.passed) return;
  step.passed = prepared(std::move(step.program), cache);
  const Program& p = step.passed->program;
  step.storages = assign_storages(p, step.passed->workspace, storage_options(options));
  step.peak = peak_of(step.storages, lifetimes_of(p, step.storages)).bytes;
}

// Of those whose peaks fit and that take at most so long, the fewest bytes of the nearly fastest.
// Null: there are none.
QueuedStep* best_of(std::vector<QueuedStep*>& steps, double most_ms, double now_ms, int64_t limit,
                    const std::function<void(QueuedStep&)>& find_peak) {
  std::sort(steps.begin(), steps.end(),
            [](const QueuedStep* a, const QueuedStep* b) { return a->step_ms < b->step_ms; });
  QueuedStep* best = nullptr;
  for (QueuedStep* s : steps) {
    if (s->step_ms > most_ms) break;
    find_peak(*s);
    if (s->peak > limit) continue;
    if (!best) {
      const double fastest = s->step_ms;
      most_ms = std::min(most_ms, fastest + kNearlyFastest * (now_ms - fastest));
    }
    if (!best || s->peak < best->peak) best = s;
  }
  return best;
}

// "8.2 of 11.6 ms of 14 exchanges hidden".
std::string note_of(const Program& program, const DeviceProfile& device, const Storages& storages) {
  const ExchangeTimes t = exchange_times(program, predict(program, device, &storages));
  char text[96];
  std::snprintf(text, sizeof text, "%.3g of %.3g ms of %lld exchanges hidden", t.ms - t.exposed_ms,
                t.ms, static_cast<long long>(t.count));
  return text;
}

}  // namespace

void queue_exchanges_of(Compiled& step, KernelCache& cache, const CompileOptions& options,
                        const std::function<Plan(const Compiled&)>& place) {
  if (exchanged_bytes(step.program) == 0) return;
  const Clock::time_point start = Clock::now();
  const DeviceProfile& device = *options.exchange_device;
  const Prediction times = predict(step.program, device, &step.storages);
  const int64_t before = step.plan.device().bytes;
  const MoreBytes limit = more_bytes(step, options, kMoreBytes, device.capacity);
  PassReport report{.name = "queue_exchanges", .before_bytes = before, .after_bytes = before};
  report.note = "exchanges stay in the queue of the computation";
  std::vector<QueuedStep> all = queued_steps(step.program, times.node_ms);
  std::vector<QueuedStep*> left;
  for (QueuedStep& each : all) left.push_back(&each);
  // By the same clock as theirs: queues in order, copies that do not slow each other down.
  const double now_ms = step_ms_of(step.program, times.node_ms);
  const double most_ms = now_ms * (1 - kLeastGain);
  const auto peak = [&](QueuedStep& s) { find_peak(s, cache, options); };
  while (QueuedStep* const best = best_of(left, most_ms, now_ms, limit.peak, peak)) {
    Compiled made;
    made.program = best->passed->program, made.storages = best->storages;
    made.plan = place(made);
    if (made.plan.device().bytes > limit.plan) {
      std::erase(left, best);
      continue;
    }
    verify(made.program);
    check_plan(made.program, made.storages, made.plan);
    report.note = note_of(made.program, device, made.storages);
    report.after_bytes = made.plan.device().bytes;
    report.added_ms = best->step_ms - now_ms;
    step.kernels = std::move(best->passed->kernels);
    step.program = std::move(made.program), step.storages = std::move(made.storages);
    step.plan = std::move(made.plan);
    break;
  }
  report.seconds = seconds_since(start);
  step.passes.push_back(std::move(report));
}

}  // namespace pal
