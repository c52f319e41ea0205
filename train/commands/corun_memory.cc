// Steps as others see them, the way that is predicted to be best, and its pool.
#include "train/commands/corun_memory.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

// The last micro-batch's step of the bucket that needs most.
StepShape largest_shape(const Job& job, const DeviceProfile& device) {
  const Config& config = job.config();
  const Task& task = job.task();
  CompileOptions options = run_options(config.memory);
  if (!options.profile) options.profile = device;
  KernelCache cache(training_device(config));
  StepShape largest;
  for (const int bucket : task.largest_candidates()) {
    Program recorded = record_plan_step(task, config, task.bucket_lengths(bucket));
    const StateLayout layout(recorded);
    const Compiled c = compile(std::move(recorded), cache, layout, options);
    StepShape shape = step_shape(job.args().name, c.program, c.storages, c.plan, device);
    if (shape.alone_bytes > largest.alone_bytes) largest = std::move(shape);
  }
  return largest;
}

std::string needs(const std::vector<StepShape>& shapes) {
  std::string out;
  for (size_t j = 0; j < shapes.size(); ++j) {
    out += (j == 0 ? "" : ", ") + std::string("job ") + std::to_string(j + 1) + " (" +
           shapes[j].name + ") " + format_bytes(shapes[j].alone_bytes) + ", of which " +
           format_bytes(shapes[j].own_bytes) + " its own";
  }
  return out;
}

}  // namespace

CorunMemory::CorunMemory(const std::vector<std::unique_ptr<Job>>& jobs, const CorunArgs& args,
                         const DeviceProfile& device)
    : device_(device.name), budget_(args.budget) {
  std::vector<const StepShape*> shapes;
  for (const auto& job : jobs) shapes_.push_back(largest_shape(*job, device));
  for (const StepShape& shape : shapes_) shapes.push_back(&shape);
  CorunSearch search(shapes);
  own_bytes_ = search.own_bytes();
  turns_ = search.turns().rate;
  std::optional<CorunWay> way;
  int64_t least = search.least_bytes();
  switch (args.mode) {
    case CorunMode::automatic: way = search.within(args.budget, args.goal); break;
    case CorunMode::shared: way = search.side_by_side(args.budget, args.goal); break;
    case CorunMode::turns:
      if (least <= args.budget) way = search.turns();
      break;
    case CorunMode::unshared: throw ProgramError("jobs that share nothing need no pool");
  }
  if (!way) {
    const int64_t missing = least - args.budget;
    throw BudgetError(
        "--budget: " + format_bytes(args.budget) +
        (missing > 0 ? " is " + format_bytes(missing) + " short of what the jobs need in mode " +
                           name_of(args.mode) + " (" + format_bytes(least) + "): "
                     : " leaves no room for two steps at once: ") +
        needs(shapes_) + "; give smaller batches, a job its own memory.budget (--set " +
        "1:memory.budget=SIZE)" +
        (args.mode == CorunMode::turns || args.mode == CorunMode::automatic ? ""
                                                                            : ", or --mode turns"));
  }
  way_ = std::move(*way);
  std::vector<int64_t> parts;
  const int64_t slack = args.budget - own_bytes_ - way_.pool_bytes;
  int64_t bytes = way_.pool_bytes;
  for (size_t j = 0; j < shapes_.size(); ++j) parts.push_back(search.part_of(j));
  // Half of what is left over is for programs that need more than the steps do, half for what they
  // have of their own.
  if (way_.kind == CorunWay::Kind::beside) {
    for (int64_t& part : parts) part += slack / 2 / int64_t(parts.size()) / kAlignment * kAlignment;
  }
  bytes += slack / 2 / kAlignment * kAlignment;
  pool_ = std::make_shared<SharedPool>(way_, shapes_.size(), bytes, std::move(parts));
}

std::vector<std::string> CorunMemory::lines() const {
  const std::string kind = to_string(way_.kind);
  std::string head = "memory " + format_bytes(own_bytes_ + way_.pool_bytes) + " of " +
                     format_bytes(budget_) + ": " + format_bytes(own_bytes_) +
                     " the jobs' own, a pool of " + format_bytes(way_.pool_bytes) + " (" + kind;
  if (way_.kind == CorunWay::Kind::circle) {
    const auto& jobs = way_.circle.jobs;
    for (size_t j = 0; j < jobs.size(); ++j) {
      head += (j == 0 ? ": " : " to ") + std::to_string(jobs[j].steps);
    }
    head += " steps in " + fixed(double(way_.circle.period) * 1e-6, 1) + " ms";
    for (size_t j = 1; j < jobs.size(); ++j) {
      head += ", job " + std::to_string(j + 1) + " " + fixed(double(jobs[j].begins) * 1e-6, 1) +
              " ms later";
    }
  }
  std::vector<std::string> lines{head + ")"};
  std::string rates =
      "predicted (" + device_ + "): " + fixed(way_.total, 2) + " times the steps of taking turns;";
  for (size_t j = 0; j < shapes_.size(); ++j) {
    rates += (j == 0 ? " " : ", ") + std::string("job ") + std::to_string(j + 1) + " at " +
             fixed(100 * way_.rate[j], 0) + " % of its speed alone (in turns " +
             fixed(100 * turns_[j], 0) + " %)";
  }
  lines.push_back(rates);
  return lines;
}

nlohmann::json CorunMemory::json() const {
  nlohmann::json out{{"way", to_string(way_.kind)},
                     {"bytes", own_bytes_ + way_.pool_bytes},
                     {"own_bytes", own_bytes_},
                     {"pool_bytes", way_.pool_bytes},
                     {"profile", device_},
                     {"predicted", {{"total", way_.total}, {"rates", way_.rate}}},
                     {"turns", {{"total", 1}, {"rates", turns_}}}};
  if (way_.kind == CorunWay::Kind::circle) {
    out["period_ms"] = double(way_.circle.period) * 1e-6;
    for (const JobOnCircle& job : way_.circle.jobs) {
      out["pattern"].push_back({{"steps", job.steps}, {"begins_ms", double(job.begins) * 1e-6}});
    }
  }
  return out;
}

std::string CorunMemory::waits_line(size_t job) const {
  const PoolStats stats = pool_->stats(JobId(job));
  return "waited " + fixed(stats.waited_seconds, 1) + " s for the others, " +
         std::to_string(stats.waits) + " times";
}

}  // namespace pal
