// Planning, and four simulations.
#include "train/papers/zico_steps.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "memory/share/minutes.h"
#include "train/config/profile.h"
#include "train/config/published_sizes.h"
#include "train/config/wording.h"
#include "train/loop/max_fit.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

constexpr ZicoNetwork kZicoNetworks[] = {{"NASNet", "nasnet_a_mobile_imagenet", false},
                                         {"ResNet-110", "resnet110_cifar10", false},
                                         {"ResNet-50", "resnet50_imagenet", true},
                                         {"GNMT", "gnmt_wmt", false},
                                         {"RHN", "rhn_ptb", false},
                                         {"BERT", "bert_base", true}};

constexpr double kPlannedRounds = 24;   // of a step each, that are simulated
constexpr double kLearningRounds = 90;  // where a scheduler has to learn first

struct ZicoTask {
  Config config;
  std::unique_ptr<Task> task;
  std::pair<int64_t, int64_t> bucket;

  ZicoTask(const ZicoNetwork& network, int64_t batch) {
    config = load_config(
        find_config(network.config),
        {parse_set("train.optimizer=sgd"), parse_set("train.batch_size=" + std::to_string(batch))});
    use_published_sizes(config);
    task = make_task(config);
    bucket = task->bucket_lengths(task->largest_candidates().front());
  }
};

double round_ms(const ZicoJobs& jobs) {
  double ms = 0;
  for (const ZicoStep* job : jobs) ms += job->shape.ms();
  return ms;
}

std::vector<SimulatedJob> simulated(const ZicoJobs& jobs) {
  std::vector<SimulatedJob> out;
  for (const ZicoStep* job : jobs) out.push_back({.programs = {&job->shape}});
  return out;
}

double link_of(const DeviceProfile& device) { return device.link * device.link_efficiency; }

}  // namespace

std::span<const ZicoNetwork> zico_networks() { return kZicoNetworks; }

const ZicoNetwork& zico_network(const std::string& name) {
  for (const ZicoNetwork& n : kZicoNetworks) {
    if (n.name == name) return n;
  }
  throw UsageError("no network of Zico's is called " + name);
}

DeviceProfile zico_card(const ZicoNetwork& network, const DeviceProfile& device) {
  const bool papers = device.name == load_profile("rtx2080ti").name;
  return papers && network.large ? load_profile("v100_32") : device;
}

int64_t ZicoPlanner::largest_batch(const ZicoNetwork& network, int64_t bytes) {
  if (bytes == 0) bytes = device_.capacity;
  const auto [at, is_new] = largest_.try_emplace({network.name, bytes});
  if (is_new) {
    const ZicoTask job(network, 32);
    at->second = largest_fitting(*job.task, job.config, job.bucket, kBatchKey, bytes, 0, device_)
                     .found.value;
  }
  return at->second;
}

const ZicoStep& ZicoPlanner::step(const ZicoNetwork& network, int64_t batch) {
  const auto [at, is_new] = steps_.try_emplace({network.name, batch});
  ZicoStep& out = at->second;
  if (!is_new) return out;
  const ZicoTask job(network, batch);
  const Program recorded = record_plan_step(*job.task, job.config, job.bucket);
  KernelCache cache(choose_device(job.config.device));
  CompileOptions options = compile_options(job.config.memory);
  options.profile = device_;
  const Compiled c = compile(recorded, cache, StateLayout(recorded), options);
  out.shape = step_shape(network.name, c.program, c.storages, c.plan, device_);
  out.pages = step_pages(c.program, c.storages, c.plan);
  out.batch = batch;
  return out;
}

std::vector<StepShape> ZicoPlanner::bucket_steps(const ZicoNetwork& network, int64_t batch,
                                                 int most) {
  const ZicoTask job(network, batch);
  KernelCache cache(choose_device(job.config.device));
  CompileOptions options = compile_options(job.config.memory);
  options.profile = device_;
  std::vector<StepShape> out;
  for (int b = job.task->bucket_count() - 1; b >= 0 && int(out.size()) < most; --b) {
    const Program recorded = record_plan_step(*job.task, job.config, job.task->bucket_lengths(b));
    const Compiled c = compile(recorded, cache, StateLayout(recorded), options);
    out.push_back(step_shape(network.name, c.program, c.storages, c.plan, device_));
  }
  return out;
}

const ZicoStep& ZicoPlanner::part_of_card(const ZicoNetwork& network, double part) {
  return step(network, largest_batch(network, int64_t(part * double(device_.capacity))));
}
const ZicoStep& ZicoPlanner::part_of_batch(const ZicoNetwork& network, double part) {
  return step(network, std::max<int64_t>(1, int64_t(part * double(largest_batch(network)))));
}

std::vector<const StepShape*> shapes_of(const ZicoJobs& jobs) {
  std::vector<const StepShape*> out;
  for (const ZicoStep* job : jobs) out.push_back(&job->shape);
  return out;
}

std::string two_digits(double value) { return fixed(value, 2); }

SimulatedWay planned_way(const ZicoJobs& jobs, int64_t budget, const DeviceProfile& device,
                         CorunGoal goal) {
  CorunSearch search(shapes_of(jobs));
  const std::optional<CorunWay> way = search.within(budget, goal);
  if (!way) return minutes_way(jobs, budget, device);
  const auto gate = way->gate(shapes_of(jobs));
  SimulatedWay out{.run = simulate(simulated(jobs), *gate, kPlannedRounds * round_ms(jobs),
                                   {.first = way->first}),
                   .how = to_string(way->kind),
                   .most_bytes = search.own_bytes() + way->pool_bytes};
  out.run.rate = way->rate;
  return out;
}

std::optional<SimulatedWay> zico_way(const ZicoJobs& jobs, int64_t budget,
                                     std::vector<double>* shift_ms) {
  std::vector<ZicoJob> of;
  int64_t local = 0, most = 0;
  for (const ZicoStep* job : jobs) {
    of.push_back(zico_job(job->shape));
    local += of.back().local_bytes;
    most = std::max(most, of.back().bytes() - of.back().local_bytes);
  }
  if (local + most > budget) return {};
  double clock = 0;
  const auto gate = zico_gate(std::move(of), {{0, budget}}, &clock);
  SimulatedWay out{
      .run = simulate(simulated(jobs), *gate, kLearningRounds * round_ms(jobs), {.clock = &clock}),
      .how = gate->gave_up() ? "gave up" : "zico",
      .most_bytes = gate->most_bytes()};
  if (shift_ms) {
    shift_ms->clear();
    for (size_t j = 0; j < jobs.size(); ++j) {
      const auto& steps = out.run.steps[j];
      double gaps = 0;
      size_t count = 0;
      for (size_t i = 1; i < steps.size(); ++i) {
        if (steps[i].begin_ms < out.run.ms / 4) continue;
        gaps += steps[i].begin_ms - steps[i - 1].end_ms, ++count;
      }
      shift_ms->push_back(count ? gaps / double(count) : 0);
    }
  }
  return out;
}

SimulatedWay minutes_way(const ZicoJobs& jobs, int64_t budget, const DeviceProfile& device) {
  // As many turns each after the first quarter of the time.
  const MinutesOptions options{.budget = budget, .link = link_of(device)};
  const double ms = 20 * double(jobs.size()) * options.slice_ms;
  return {.run = simulate_minutes(shapes_of(jobs), options, ms), .how = "minutes"};
}

SimulatedWay unshared_way(const ZicoJobs& jobs, int64_t capacity, const DeviceProfile& device) {
  std::vector<std::vector<const StepPages*>> pages;
  for (const ZicoStep* job : jobs) pages.push_back({&job->pages});
  PagedMemory memory(std::move(pages), capacity, link_of(device));
  const auto gate = open_gate();
  SimulatedWay out{.run = simulate(simulated(jobs), *gate, 2 * kPlannedRounds * round_ms(jobs),
                                   {.memory = &memory}),
                   .how = memory.moved_out() > 0 ? "pages" : "beside"};
  for (const ZicoStep* job : jobs) out.most_bytes += int64_t(job->pages.pages) * kUvmPage;
  return out;
}

int64_t live_at(const StepShape& shape, double part) {
  const auto tick = int64_t(part * double(shape.ticks()));
  int64_t bytes = 0;
  for (const SharableBuffer& b : shape.buffers) {
    const int64_t begin = shape.tick[size_t(b.life.begin)], end = shape.tick[size_t(b.life.end)];
    if (begin <= tick && tick < end) bytes += b.bytes;
  }
  return bytes;
}

std::vector<int64_t> held_at(const ZicoJobs& jobs, const SimulatedRun& run, double ms) {
  std::vector<int64_t> out;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const StepShape& shape = jobs[j]->shape;
    int64_t bytes = shape.own_bytes;
    for (const SimulatedSpan& s : run.steps[j]) {
      if (s.begin_ms > ms || s.end_ms <= ms) continue;
      bytes += live_at(shape, (ms - s.begin_ms) / (s.end_ms - s.begin_ms));
    }
    out.push_back(bytes);
  }
  return out;
}

}  // namespace pal
