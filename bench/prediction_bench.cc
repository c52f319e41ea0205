// Predicted against measured: the step of several configurations without recomputation, with echo,
// and with echo's gradients not fused, on this machine's processor.
//
//   bench_prediction_bench [--config NAME]... [--steps N]
//
// The processor is measured first, as `pal bench --profile` does; then each step is priced by the
// roofline (memory/price/predict.h) and run on full batches of made-up samples. Overheads are
// against the step without recomputation. Figures are those of an idle machine or none.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "core/error.h"
#include "core/scalars.h"
#include "train/commands/measure_cpu.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace {

using namespace pal;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return 1e3 * std::chrono::duration<double>(Clock::now() - start).count();
}

struct Times {
  double predicted = 0, measured = 0;  // milliseconds a step
  double predicting = 0;               // milliseconds that predict() takes
  int64_t bytes = 0;
  size_t nodes = 0;
};

Times times_of(const Config& config, const Task& task, Recompute method, bool fuse,
               const DeviceProfile& profile, const Device& device, int steps) {
  CompileOptions options = compile_options(config.memory);
  options.recompute = method, options.fuse_recompute = fuse;
  const auto bucket = task.bucket_lengths(task.bucket_count() / 2);
  ProgramSet programs(options, device);
  Executable& step = programs.add("step", record_plan_step(task, config, bucket));
  initialise(programs, 1);
  const BatchInfo batch = task.fill_full(step, bucket);
  StepScalars scalars{.learning_rate = float(*config.train.lr), .tokens = float(batch.normalizer)};
  std::vector<double> ms;
  for (int i = -1; i < steps; ++i, ++scalars.step) {  // the first for nothing
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    const auto start = Clock::now();
    step.run();
    if (i >= 0) ms.push_back(since(start));
  }
  std::nth_element(ms.begin(), ms.begin() + long(ms.size() / 2), ms.end());
  const Compiled& compiled = step.compiled();
  const auto start = Clock::now();
  const double predicted = predict(compiled.program, profile, &compiled.storages).step_ms;
  return {predicted, ms[ms.size() / 2], since(start), compiled.plan.device().bytes,
          compiled.program.nodes.size()};
}

void print(const std::string& name, const char* method, const Times& t, const Times* base) {
  std::printf("| %s | %s | %zu | %.0f MB | %.1f | %.1f | %.2f |", name.c_str(), method, t.nodes,
              1e-6 * double(t.bytes), t.predicted, t.measured, t.measured / t.predicted);
  if (base) {
    std::printf(" %+.1f %% | %+.1f %% |", 100 * (t.predicted / base->predicted - 1),
                100 * (t.measured / base->measured - 1));
  } else {
    std::printf(" | |");
  }
  std::printf(" %.2f |\n", t.predicting);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  CLI::App app("Predicted and measured times of training steps on this machine's processor.");
  std::vector<std::string> configs{"nmt_small", "transformer_small", "resnet_small", "nmt_iwslt"};
  int steps = 5;
  app.add_option("--config", configs, "configurations")->take_all();
  app.add_option("--steps", steps, "steps timed; the median counts")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  const Device device = cpu_device();
  const CpuMeasurement cpu = measure_cpu(device);
  for (const std::string& line : describe(cpu)) std::printf("%s\n", line.c_str());
  std::printf(
      "\n| configuration | recompute | nodes | footprint | predicted, ms | measured, ms | "
      "measured / predicted | overhead, predicted | measured | predict(), ms |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
  for (const std::string& name : configs) {
    const Config config = with_made_up_data(name, {});
    const auto task = make_task(config);
    const auto times = [&](Recompute method, bool fuse) {
      return times_of(config, *task, method, fuse, cpu.profile, device, steps);
    };
    const Times none = times(Recompute::none, false);
    print(name, "none", none, nullptr);
    print(name, "echo", times(Recompute::echo, true), &none);
    print(name, "echo, not fused", times(Recompute::echo, false), &none);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("prediction_bench", run, argc, argv); }
