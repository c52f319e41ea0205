// The front of every configuration that ships, at several budgets: what is picked, how far its time
// is from the certified bound (memory/front/bound.h), and whether any technique alone beats it.
//
// Each at its own batch size, its largest bucket, with made-up data, on each profile. Budgets are a
// geometric grid from what the step takes as it was recorded down to the least found. A row has the
// nodes, the plans on the front, the share of the recorded bytes that the least one takes, gaps
// over the budgets (median, 90th percentile, largest; parts of the step's time), in how many the
// pick is faster than every single technique that fits, and the seconds of front and bound
// (processor time, one thread). Rows that break a promise say so. --singles compiles the techniques
// alone, which takes long. All times are predicted.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "memory/front/bound.h"
#include "memory/front/pool.h"
#include "train/config/profile.h"
#include "train/loop/run_options.h"

namespace {

using namespace pal;

constexpr size_t kName = 26;  // columns
constexpr double kUpToRounding = 1 + 1e-9;
constexpr double kOverheads[] = {0.02, 0.05, 0.09, 0.15, 0.3};

struct Args {
  std::vector<std::string> configs, sets, profiles{"v100_16"};
  size_t nodes = 3000;
  int budgets = 24;
  bool singles = false, points = false;
};

double at_part(std::vector<double> list, double part) {
  if (list.empty()) return 0;
  std::sort(list.begin(), list.end());
  return list[std::min(list.size() - 1, size_t(part * double(list.size())))];
}

struct Single {
  int64_t bytes;
  double ms;
};

// Placed bytes and times of every technique alone.
std::vector<Single> singles_of(const Program& step, KernelCache& cache, const StateLayout& layout,
                               const CompileOptions& plain) {
  std::vector<CompileOptions> all{plain};
  const auto add = [&](auto&& change) { all.push_back(plain), change(all.back()); };
  add([](CompileOptions& o) { o.recompute = Recompute::mirror; });
  add([](CompileOptions& o) { o.recompute = Recompute::sqrt; });
  for (const double overhead : kOverheads) {
    add([&](CompileOptions& o) {
      o.recompute = Recompute::echo, o.recompute_options.overhead = overhead;
    });
  }
  add([](CompileOptions& o) { o.encode = kBits; });
  if (plain.profile->link > 0) {
    for (const Swap method : {Swap::naive, Swap::vdnn, Swap::planned}) {
      add([&](CompileOptions& o) { o.swap.method = method; });
    }
  }
  std::vector<Single> out;
  for (const CompileOptions& options : all) {
    const Compiled plan = compile(step, cache, layout, options);
    out.push_back({plan.plan.device().bytes, plan.time->step_ms});
  }
  return out;
}

void measure(const std::string& name, const std::string& profile, const Args& args,
             std::vector<double>& all_gaps) {
  const std::string row = padded(name, kName) + " " + padded(profile, 10);
  const auto step = largest_step(name, args.sets, args.nodes, row);
  if (!step) return;
  const auto& [config, program] = *step;
  Device device = choose_device(config.device);
  device.threads = 1;
  KernelCache cache(device);
  const StateLayout layout(program);
  CompileOptions options = compile_options(config.memory);
  options.recompute = Recompute::none, options.encode = {}, options.swap.method = Swap::none;
  options.budget.reset(), options.must_fit = false, options.profile = load_profile(profile);

  double start = processor_seconds();
  const Front front = make_front(program, cache, layout, options);
  const double front_seconds = processor_seconds() - start;
  const int64_t least = front.points.front().bytes;
  const Compiled plain = compile(program, cache, layout, options);
  const int64_t most = plain.plan.device().bytes;
  std::vector<int64_t> budgets;
  for (int k = args.budgets - 1; k >= 0; --k) {
    const double part = double(k) / std::max(1, args.budgets - 1);
    budgets.push_back(
        int64_t(std::ceil(double(most) * std::pow(double(least) / double(most), part))));
  }
  start = processor_seconds();
  const std::vector<double> bounds =
      bounds_of(program, layout, options, *options.profile, budgets).ms;
  const double bound_seconds = processor_seconds() - start;
  const std::vector<Single> singles =
      args.singles ? singles_of(program, cache, layout, options) : std::vector<Single>{};

  std::vector<double> gaps;
  int faster = 0;
  std::string broken;
  double last = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < budgets.size(); ++i) {
    const FrontPoint* pick = front.pick({budgets[i]});
    if (!pick) continue;
    gaps.push_back(1 - bounds[i] / pick->step_ms);
    if (bounds[i] > pick->step_ms * kUpToRounding) broken += " BELOW-BOUND";
    if (pick->step_ms > last) broken += " NOT-MONOTONE";
    last = pick->step_ms;
    double alone = std::numeric_limits<double>::infinity();
    for (const Single& single : singles) {
      if (single.bytes <= budgets[i]) alone = std::min(alone, single.ms);
    }
    if (alone < pick->step_ms) broken += " BEATEN";
    faster += pick->step_ms < alone;
    if (args.points) {
      std::printf("  %13lld %10.3f %10.3f %6.2f%%  %s\n", static_cast<long long>(budgets[i]),
                  pick->step_ms, bounds[i], 100 * gaps.back(), pick->from.c_str());
    }
  }
  all_gaps.insert(all_gaps.end(), gaps.begin(), gaps.end());
  const std::string below =
      args.singles ? std::to_string(faster) + "/" + std::to_string(gaps.size()) : "-";
  std::printf("%s %6zu %3zu %5.1f%% %6.2f%% %6.2f%% %6.2f%% %6s %7.1f %7.1f%s\n", row.c_str(),
              program.nodes.size(), front.points.size(), 100 * double(least) / double(most),
              100 * at_part(gaps, 0.5), 100 * at_part(gaps, 0.9), 100 * at_part(gaps, 1),
              below.c_str(), front_seconds, bound_seconds, broken.c_str());
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  Args args;
  CLI::App app{"fronts and bounds of the shipped configurations"};
  app.add_option("--config", args.configs, "configurations; all that ship unless told");
  app.add_option("--set", args.sets, "a.b=c, for every configuration");
  app.add_option("--profile", args.profiles, "devices");
  app.add_option("--nodes", args.nodes, "larger steps are passed over");
  app.add_option("--budgets", args.budgets, "how many");
  app.add_flag("--singles", args.singles, "compare with every technique alone");
  app.add_flag("--points", args.points, "a line for every budget");
  CLI11_PARSE(app, argc, argv);
  if (args.configs.empty()) args.configs = shipped_configs();
  std::printf("%-26s %-10s %6s %3s %6s %7s %7s %7s %6s %7s %7s\n", "step", "profile", "nodes", "",
              "least", "median", "90 %", "most", "below", "front s", "bound s");
  std::vector<double> gaps;
  for (const std::string& profile : args.profiles) {
    for (const std::string& config : args.configs) {
      unless_refused(config, [&] { measure(config, profile, args, gaps); });
    }
  }
  std::printf("%zu budgets: median %.2f%%, 90th percentile %.2f%%\n", gaps.size(),
              100 * at_part(gaps, 0.5), 100 * at_part(gaps, 0.9));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_bench("front_bench", run, argc, argv); }
