// What keeping less on the device costs here, where the device is this processor and its memory is
// the host's too: steps of a configuration as it is planned, with planned swapping, and with
// dynamic managers, at 70 and 50 % of the plan's bytes, run in turn.
//
// ms: median of a step. added: over the plan, the median of the rounds' own ratios. predicted: the
// same by the device profile `cpu`. again: nodes that run again take so much of the plan's step.
// copies: milliseconds of all of them, and the part in which compute runs a node beside them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "core/error.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/papers/measured_step.h"

namespace {

using namespace pal;

struct Args {
  std::vector<std::string> configs{"resnet_small", "nmt_small", "transformer_small", "bert_small"};
  std::vector<std::string> sets;
  int64_t rounds = 9;
};

void measure(const std::string& name, const Args& args) {
  const auto [config, recorded] = largest_step_of_its_data(name, args.sets);
  CompileOptions plain = compile_options(config.memory);
  plain.profile = load_profile("cpu");
  std::vector<std::string> names{"plan"};
  std::vector<std::unique_ptr<MeasuredStep>> steps;
  steps.push_back(std::make_unique<MeasuredStep>(recorded, plain));
  const int64_t most = steps[0]->compiled().plan.device().bytes;
  for (const int percent : {70, 50}) {
    CompileOptions planned = plain, delta = plain, dtr = plain;
    planned.swap.method = Swap::planned;
    delta.dynamic.manager = Manager::delta, dtr.dynamic.manager = Manager::dtr;
    for (const auto& [what, options] :
         {std::pair{"planned", &planned}, {"delta", &delta}, {"dtr", &dtr}}) {
      options->budget = most * percent / 100;
      try {
        steps.push_back(std::make_unique<MeasuredStep>(recorded, *options, steps[0].get()));
        names.push_back(printed("%s, %d %%", what, percent));
      } catch (const BudgetError&) {
        std::printf("%s, %s, %d %%: refused\n", name.c_str(), what, percent);
      }
    }
  }
  const Alternated all = alternate(steps, args.rounds);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Compiled& c = steps[i]->compiled();
    const ByNode<double> node_ms = steps[i]->node_ms(5);
    const MeasuredStep::CopyTimes copies = steps[i]->copy_ms(5);
    double again = 0;
    for (NodeId n : node_ms.ids()) {
      if (c.program.node(n).phase == Phase::recompute) again += node_ms[n];
    }
    std::printf(
        "%-18s %-14s %7.1f MB %8.2f ms %+7.1f %% %+8.1f %% %7.1f %%", name.c_str(),
        names[i].c_str(), double(c.plan.device().bytes) * 1e-6, all.ms[i], 100 * all.added[i],
        100 * (c.time->step_ms / steps[0]->compiled().time->step_ms - 1), 100 * again / all.ms[0]);
    if (copies.ms > 0) {
      std::printf(" %8.2f ms %6.0f %%", copies.ms, 100 * copies.beside_compute_ms / copies.ms);
    }
    std::printf("\n");
  }
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  CLI::App app("What swapping and dynamic managers cost on this machine.");
  Args args;
  app.add_option("--config", args.configs, "configurations")->take_all();
  app.add_option("--set", args.sets, "key=value over them")->take_all();
  app.add_option("--rounds", args.rounds, "of all ways in turn");
  CLI11_PARSE(app, argc, argv);
  std::printf("%-18s %-14s %10s %11s %9s %10s %9s %11s %8s\n", "config", "way", "bytes", "step",
              "added", "predicted", "again", "copies", "overlap");
  for (const std::string& name : args.configs) {
    unless_refused(name, [&] { measure(name, args); });
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("swap_bench", run, argc, argv); }
