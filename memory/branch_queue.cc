// Simulated branches, the fastest of which is placed.
#include "memory/branch_queue.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/order.h"
#include "core/verify.h"
#include "memory/more_bytes.h"
#include "memory/pass.h"
#include "memory/price/side_by_side.h"
#include "memory/queues/branches.h"
#include "memory/queues/waits.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

// Predicted times are not so exact that less would be known to be a gain.
constexpr double kLeastBranchGain = 0.02;
// Without a budget: of the bytes of the plan on one queue. Two directions of a layer have their
// gradient maps at once, which is 3 % of a Deep Speech 2; nobody is to pay more unasked.
constexpr double kMoreBranchBytes = 0.05;
// How many nodes a queue may be ahead of the other; the first: any number.
constexpr NodeId kAhead[] = {1 << 30, 4096, 1024, 256, 64};

// Of a queue's nodes every so many know what the other has given back. Waits are free in the
// simulation and not on a card: what is not in time there holds up both.
constexpr int kWaitsEvery[] = {256, 64, 16, 4, 1};

// The step with branches, as it runs.
struct BranchLayout {
  Program program;
  SideBySide run;
};

bool has_one_queue(const Program& program) {
  return std::all_of(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
    return node.queue == kComputeQueue && node.waits.empty() && !node.op->collective;
  });
}

std::vector<BranchLayout> branch_layouts(const Program& program,
                                         const ByNode<NodeDemand>& demands) {
  std::vector<BranchLayout> out;
  for (const NodeId ahead : kAhead) {
    const bool all = ahead >= program.node_count();
    if (all && !out.empty()) continue;
    Branched branched = with_branches(program, demands, ahead);
    ByNode<NodeDemand> in_order;
    for (NodeId n : branched.order) in_order.push_back(demands[n]);
    SideBySide run = run_side_by_side(branched.with_held(), in_order);
    out.push_back({std::move(branched.program), std::move(run)});
  }
  std::stable_sort(out.begin(), out.end(), [](const BranchLayout& a, const BranchLayout& b) {
    return a.run.ms < b.run.ms;
  });
  return out;
}

// The layout with the fewest waits that fits: its plan, and what its bytes wait for.
std::optional<Compiled> within(const BranchLayout& layout, const MoreBytes& limit,
                               KernelCache& cache, const CompileOptions& options,
                               const std::function<Plan(const Compiled&)>& place) {
  for (const int every : kWaitsEvery) {
    const Program timed = in_time(layout.program, layout.run, every);
    Compiled made;
    made.program = timed, made.kernels = prepare_all(timed, cache);
    made.storages = assign_storages(timed, workspace_bytes(made.kernels), storage_options(options));
    if (peak_of(made.storages, lifetimes_of(timed, made.storages)).bytes > limit.peak) continue;
    made.plan = place(made);
    if (made.plan.device().bytes > limit.plan) continue;
    made.program =
        with_waits_for_bytes(layout.program, layout.run, timed, made.storages, made.plan);
    return made;
  }
  return {};
}

// "4,100 of 17,000 nodes on a second queue, 230 waits; predicted 95.1 ms, on one 118.2".
std::string branches_note(const Program& program, double ms, double one_ms) {
  int64_t second = 0, waits = 0;
  for (const Node& node : program.nodes) {
    second += node.queue != kComputeQueue, waits += int64_t(node.waits.size());
  }
  char text[128];
  std::snprintf(text, sizeof text,
                "%lld of %lld nodes on a second queue, %lld waits; predicted %.4g ms, on one %.4g",
                static_cast<long long>(second), static_cast<long long>(program.nodes.size()),
                static_cast<long long>(waits), ms, one_ms);
  return text;
}

}  // namespace

void queue_branches_of(Compiled& step, KernelCache& cache, const CompileOptions& options,
                       const std::function<Plan(const Compiled&)>& place) {
  if (!has_one_queue(step.program)) return;
  const Clock::time_point start = Clock::now();
  const DeviceProfile& device = *options.branch_device;
  const ByNode<NodeDemand> demands = demands_of(step.program, device, &step.storages);
  const double now_ms = one_by_one_ms(demands);
  const MoreBytes limit = more_bytes(step, options, kMoreBranchBytes, device.capacity);
  const int64_t before = step.plan.device().bytes;
  PassReport report{.name = "branches", .before_bytes = before, .after_bytes = before};
  report.note = "one queue is as fast";
  for (const BranchLayout& layout : branch_layouts(step.program, demands)) {
    if (layout.run.ms > now_ms * (1 - kLeastBranchGain)) break;
    std::optional<Compiled> made = within(layout, limit, cache, options, place);
    report.note = "two queues do not fit";
    if (!made) continue;
    const double ms = predict(made->program, device, &made->storages).step_ms;
    report.note = "two queues are hardly faster";
    if (ms > now_ms * (1 - kLeastBranchGain)) continue;  // by what its bytes wait for
    verify(made->program);
    check_plan(made->program, made->storages, made->plan);
    report.note = branches_note(made->program, ms, now_ms);
    report.after_bytes = made->plan.device().bytes, report.added_ms = ms - now_ms;
    step.program = std::move(made->program), step.kernels = std::move(made->kernels);
    step.storages = std::move(made->storages), step.plan = std::move(made->plan);
    break;
  }
  report.seconds = seconds_since(start);
  step.passes.push_back(std::move(report));
}

}  // namespace pal
