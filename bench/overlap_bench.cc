// How much of their exchanges two ranks hide behind the computation, over a link that is held at
// 1 Gbit/s: ranks are threads of this program, a thread each, whose exchanges take as long as the
// link would. Three steps in turn: without the link, with exchanges among the computation, and with
// a queue of their own.
//   hidden part = (among - own queue) / min(among - without, backward pass)
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/run_bench.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "tests/support/held_link.h"
#include "tests/support/thread_group.h"
#include "train/config/config.h"
#include "train/loop/choose_bucket.h"
#include "train/loop/exchange_device.h"
#include "train/loop/initialise.h"
#include "train/loop/ranks_of_run.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

constexpr double kRate = 125e6, kLatency = 50e-6;  // 1 Gbit/s

struct OverlapTimes {
  double without_ms = 0, among_ms = 0, own_queue_ms = 0, backward_ms = 0;
  int64_t among_bytes = 0, own_queue_bytes = 0;
  std::string bucket, predicted;
};

double median_of(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + int64_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Milliseconds of the nodes of the backward pass, but for exchanges, in the last run.
double backward_ms(Executable& step) {
  const std::vector<int64_t> ns = step.runner().node_times();
  double sum = 0;
  for (NodeId n : step.program().nodes.ids()) {
    const Node& node = step.program().node(n);
    if (node.phase != Phase::forward && node.phase != Phase::update && !node.op->collective) {
      sum += 1e-6 * double(ns[size_t(n)]);
    }
  }
  return sum;
}

OverlapTimes time_rank(Config config, const std::pair<int64_t, int64_t>& lengths, int rounds,
                       const std::shared_ptr<Group>& threads) {
  const auto link = std::make_shared<test::HeldLink>(threads, kRate, kLatency);
  config.device.threads = 1;
  config.train.link = "auto";
  Device device = training_device(config);
  device.group = link;
  CompileOptions among = compile_options(config.memory), own = among;
  own.exchange_device = exchange_device(config, device, nullptr);
  const std::unique_ptr<Task> task = make_task(config);
  ProgramSet programs(among, device);
  config = with_bucket(config, *task, lengths, programs.kernels(), own);
  Executable& plain = programs.add("among", record_plan_step(*task, config, lengths), among);
  Executable& queued = programs.add("queue", record_plan_step(*task, config, lengths), own);
  initialise(programs, 1);
  StepScalars scalars{.learning_rate = float(*config.train.lr)};
  for (Executable* step : {&plain, &queued}) {
    scalars.tokens = float(threads->size()) * float(task->fill_full(*step, lengths).normalizer);
  }
  const auto ms_of = [&](Executable& step, bool held) {
    link->let_go(!held);
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    ++scalars.step;
    share_among(*threads, 0);  // together
    const Clock::time_point begin = Clock::now();
    step.run();
    return 1e3 * seconds_since(begin);
  };
  std::vector<double> without, with, beside, backward;
  for (Executable* step : {&plain, &queued}) ms_of(*step, false);
  for (int i = 0; i < rounds; ++i) {
    without.push_back(ms_of(plain, false));
    with.push_back(ms_of(plain, true));
    beside.push_back(ms_of(queued, true));
  }
  plain.runner().set_options({.trace = true});
  for (int i = 0; i < 3; ++i) {
    ms_of(plain, false);
    backward.push_back(backward_ms(plain));
  }
  return {median_of(without),
          median_of(with),
          median_of(beside),
          median_of(backward),
          plain.compiled().plan.device().bytes,
          queued.compiled().plan.device().bytes,
          *config.train.bucket,
          queued.compiled().passes.back().note};
}

int run_overlap_bench(int argc, char** argv) {
  CLI::App app("Times what two ranks hide of their exchanges over 1 Gbit/s.");
  std::vector<std::string> names{"nmt_small", "transformer_small", "resnet_small",
                                 "deepspeech2_small"};
  std::vector<std::string> sets;
  int rounds = 9;
  bool json = false;
  app.add_option("--config", names, "configurations")->take_all();
  app.add_option("--set", sets, "key=value over them")->take_all();
  app.add_option("--rounds", rounds, "of each of the three steps")->check(CLI::PositiveNumber);
  app.add_flag("--json", json, "an object a line");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& name : names) {
    std::vector<Override> overrides;
    for (const std::string& set : sets) overrides.push_back(parse_set(set));
    const Config config = with_ranks(load_config(find_config(name), overrides), 2);
    const auto task = make_task(config);
    const auto lengths = task->bucket_lengths(task->largest_candidates().back());
    std::mutex mutex;
    OverlapTimes t;
    test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
      const OverlapTimes own = time_rank(config, lengths, rounds, group);
      const std::lock_guard lock(mutex);
      if (group->rank() == 0) t = own;
    });
    const double exchanges = t.among_ms - t.without_ms;
    const double part = (t.among_ms - t.own_queue_ms) / std::min(exchanges, t.backward_ms);
    if (json) {
      const nlohmann::ordered_json row{{"config", name},
                                       {"bucket", t.bucket},
                                       {"without_ms", t.without_ms},
                                       {"among_ms", t.among_ms},
                                       {"own_queue_ms", t.own_queue_ms},
                                       {"backward_ms", t.backward_ms},
                                       {"hidden_part", part},
                                       {"among_bytes", t.among_bytes},
                                       {"own_queue_bytes", t.own_queue_bytes}};
      std::printf("%s\n", row.dump().c_str());
    } else {
      std::printf(
          "%s, buckets of %s: without the link %.1f ms, exchanges among the computation %.1f, on "
          "their own queue %.1f; backward pass %.1f; hidden %.0f %% (predicted: %s); %.2f -> "
          "%.2f MB\n",
          name.c_str(), t.bucket.c_str(), t.without_ms, t.among_ms, t.own_queue_ms, t.backward_ms,
          100 * part, t.predicted.c_str(), 1e-6 * double(t.among_bytes),
          1e-6 * double(t.own_queue_bytes));
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace pal

int main(int argc, char** argv) {
  return pal::run_bench("overlap_bench", pal::run_overlap_bench, argc, argv);
}
