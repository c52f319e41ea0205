// Whether a budget costs what its plan says it does, on this processor: steps of a configuration as
// it is recorded and by the fastest plans of its front at three budgets, run in turn.
//
// As a run does, the front is made by the profile `cpu` first, the nodes of what it picks are timed
// (with those of the recorded step, in turn), and the front is made again by these times. Its pick
// is what is run.
//
// step: the median. predicted: the sum of its nodes' times, as they were timed before. drift: what
// the nodes of the recorded step take in these rounds, of what they took when they were timed; 1
// where nothing else uses the machine. ratio: a step over what is predicted, times the drift.
// added: over the recorded step, the median of the rounds' own ratios.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "core/error.h"
#include "core/text.h"
#include "memory/front/pool.h"
#include "memory/price/node_times.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/papers/measured_step.h"

namespace {

using namespace pal;

struct Args {
  std::vector<std::string> configs{"resnet_small", "nmt_small", "transformer_small", "bert_small"};
  std::vector<std::string> sets;
  std::vector<int> percents{80, 50, 20};  // of the way from the least found to the recorded bytes
  int64_t rounds = 9;
};

constexpr int kTimedRounds = 9;

// In turn, the first round for nothing.
NodeTimes times_of(const std::vector<std::unique_ptr<MeasuredStep>>& steps,
                   const DeviceProfile& device) {
  std::vector<std::vector<std::vector<int64_t>>> runs(steps.size());
  for (int round = 0; round <= kTimedRounds; ++round) {
    for (size_t i = 0; i < steps.size(); ++i) {
      std::vector<int64_t> ns = steps[i]->traced_run();
      if (round > 0) runs[i].push_back(std::move(ns));
    }
  }
  TimedNodes timed;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Compiled& c = steps[i]->compiled();
    timed.add(c.program, ms_by_node(typical_run(runs[i])),
              predict(c.program, device, &c.storages).node_ms);
  }
  return timed.times();
}

double predicted_ms(const MeasuredStep& step, const DeviceProfile& device) {
  return predict(step.compiled().program, device, &step.compiled().storages).step_ms;
}

void measure(const std::string& name, const Args& args) {
  const auto [config, recorded] = largest_step_of_its_data(name, args.sets);
  const StateLayout layout(recorded);
  KernelCache cache(cpu_device());
  CompileOptions options = without_techniques(compile_options(config.memory));
  options.profile = load_profile("cpu");

  std::vector<std::unique_ptr<MeasuredStep>> steps;
  const auto add = [&, &step = recorded](const CompileOptions& of, MeasuredStep* like) {
    steps.push_back(std::make_unique<MeasuredStep>(step, of, like));
  };
  add(options, nullptr);
  MeasuredStep& as_recorded = *steps[0];
  const Front first = make_front(recorded, cache, layout, options);
  const int64_t most = as_recorded.compiled().plan.device().bytes;
  const int64_t least = first.points.front().bytes;
  std::vector<int64_t> budgets;
  for (const int percent : args.percents) budgets.push_back(least + (most - least) * percent / 100);
  for (const int64_t budget : budgets) add(first.pick({budget})->options, &as_recorded);
  DeviceProfile& device = *options.profile;
  device.times = std::make_shared<const NodeTimes>(times_of(steps, device));
  const Front front = make_front(recorded, cache, layout, options);
  steps.resize(1);
  std::vector<std::string> names{"as recorded"};
  std::vector<double> predicted{predicted_ms(as_recorded, device)};
  for (const int64_t budget : budgets) {
    const FrontPoint* pick = front.pick({budget});
    if (!pick) {
      std::printf("%-18s %s: no plan by the measured times\n", name.c_str(),
                  format_bytes(budget).c_str());
      continue;
    }
    add(pick->options, &as_recorded);
    names.push_back(pick->from), predicted.push_back(pick->step_ms);
  }
  std::vector<double> now;
  const Alternated all = alternate(steps, args.rounds, [&] {
    const std::vector<int64_t> ns = as_recorded.traced_run();
    now.push_back(1e-6 * double(std::accumulate(ns.begin(), ns.end(), int64_t{0})));
  });
  const double drift = median({now.begin() + 1, now.end()}) / predicted[0];
  for (size_t i = 0; i < steps.size(); ++i) {
    std::printf("%-18s %8.2f MB %9.2f ms %9.2f ms %7.3f %7.3f %+8.1f %% %+8.1f %%  %s\n",
                name.c_str(), double(steps[i]->compiled().plan.device().bytes) * 1e-6, all.ms[i],
                predicted[i], drift, all.ms[i] / (drift * predicted[i]), 100 * all.added[i],
                100 * (predicted[i] / predicted[0] - 1), names[i].c_str());
  }
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  CLI::App app("Whether a budget costs what its plan says, on this machine.");
  Args args;
  app.add_option("--config", args.configs, "configurations")->take_all();
  app.add_option("--set", args.sets, "key=value over them")->take_all();
  app.add_option("--percent", args.percents, "budgets, from the least found to the recorded bytes")
      ->take_all();
  app.add_option("--rounds", args.rounds, "of all steps in turn");
  CLI11_PARSE(app, argc, argv);
  std::printf("%-18s %11s %12s %12s %7s %7s %10s %10s  %s\n", "config", "bytes", "step",
              "predicted", "drift", "ratio", "added", "predicted", "from");
  for (const std::string& name : args.configs) {
    unless_refused(name, [&] { measure(name, args); });
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("budget_bench", run, argc, argv); }
