// Two jobs in one memory: how densely they are placed, and what sharing is predicted to gain.
//
// By itself: two copies of each network of Zico (Lim et al. 2021), a step of one for a step of the
// other, neither ever waiting, at the shift where the fewest bytes are alive. `alive`: those, and
// `pool`: what placement needs, as multiples of what one job needs alone.
//
// --pairs: all pairs of them, a network with itself included, at budgets of --from to --to of what
// the larger needs alone: the steps a second relative to turns (turns are 1), and how. `all`: where
// each job has all the memory that it needs. `bound`: what no schedule can exceed, and the part of
// it that is reached with the most memory; `use`: the most that each job alone uses of the
// multiprocessors, flop/s or memory bandwidth. A row says `slower` where more budget is slower.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "memory/compile.h"
#include "memory/share/corun_plan.h"
#include "memory/share/demand_bound.h"
#include "train/config/config.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"

namespace {

using namespace pal;

struct Network {
  std::string config, name;
  int batch;
};

const std::vector<Network> kNetworks = {
    {"resnet50_imagenet", "ResNet-50", 32},
    {"resnet110_cifar10", "ResNet-110", 128},
    {"bert_base", "BERT", 32},
    {"gnmt_wmt", "GNMT", 128},
    {"rhn_ptb", "RHN", 64},
    {"nasnet_a_mobile_imagenet", "NASNet", 64},
};

struct Args {
  std::vector<std::string> networks;
  std::string profile = "rtx2080ti";
  double from = 1, to = 2;
  bool pairs = false, check = false;
};

StepShape shape_of(const Network& network, const Args& args) {
  const auto step = largest_step(
      network.config, {"train.batch_size=" + std::to_string(network.batch), "train.optimizer=sgd"},
      1'000'000, network.name);
  KernelCache cache(choose_device(step->config.device));
  CompileOptions options = compile_options(step->config.memory);
  options.profile = load_profile(args.profile);
  const Compiled c = compile(step->program, cache, StateLayout(step->program), options);
  return step_shape(network.name, c.program, c.storages, c.plan, *options.profile);
}

void place_copies(const StepShape& shape) {
  const double from = seconds_now(1);
  Circle best;
  int64_t alive = INT64_MAX;
  constexpr int kShifts = 96;
  const auto alone = double(shape.alone_bytes - shape.own_bytes);
  for (int shift = 0; shift <= kShifts / 2; ++shift) {
    Circle circle{shape.ticks(),
                  {{&shape, 1, 0, shape.ticks()},
                   {&shape, 1, shape.ticks() * shift / kShifts, shape.ticks()}}};
    const int64_t bytes = most_alive(circle);
    if (bytes < alive) alive = bytes, best = circle;
  }
  const double chosen = seconds_now(1);
  const PoolPlacement placement = place_on(best);
  check_placement(best, placement);
  const double placed = seconds_now(1);
  const CircleWaits waits = waits_of(best, placement);
  check_waits(best, waits);
  size_t count = 0;
  for (const auto& job : waits) count += job[0].size();
  std::printf("%-12s %8zu %9.1f %8.3f %8.3f %+7.1f %% %7.2f %7.2f %7.2f %8zu\n", shape.name.c_str(),
              shape.buffers.size(), shape.ms(), double(alive) / alone,
              double(placement.height) / alone,
              100 * (double(placement.height) / double(alive) - 1), chosen - from, placed - chosen,
              seconds_now(1) - placed, count);
  std::fflush(stdout);
}

// How many budgets are slower than a smaller one.
int share_pair(const StepShape& a, const StepShape& b, const Args& args) {
  const double from = seconds_now(1);
  CorunSearch search({&a, &b});
  const int64_t larger = std::max(a.alone_bytes, b.alone_bytes);
  std::string line = printed("%-12s %-12s %5.2f", a.name.c_str(), b.name.c_str(),
                             double(search.least_bytes()) / double(larger));
  double last = 0;
  int slower = 0;
  for (double part = args.from; part < args.to + 1e-9; part += 0.1) {
    const auto way = search.within(int64_t(double(larger) * part));
    if (!way) {
      line += "       -  ";
      continue;
    }
    slower += way->total < last;
    last = way->total;
    line += printed("  %6.3f %c", way->total, way->has_local ? 'l' : to_string(way->kind)[0]);
  }
  const double bound = demand_bound({&a, &b}).total;
  line += printed("  %6.3f  %6.3f %4.0f %%  %3.0f %% %3.0f %% %7.1f s", search.beside().total,
                  bound, 100 * last / bound, 100 * use_of(a).most(), 100 * use_of(b).most(),
                  seconds_now(1) - from);
  std::printf("%s%s\n", line.c_str(), slower ? "  slower" : "");
  std::fflush(stdout);
  return slower;
}

int run(int argc, char** argv) {
  CLI::App app("Two jobs in one memory: how densely they are placed, and what sharing gains.");
  Args args;
  app.add_option("--network", args.networks, "by name; all")->take_all();
  app.add_option("--profile", args.profile, "the device whose times count");
  app.add_option("--from", args.from, "of --pairs: the least budget, of what the larger needs");
  app.add_option("--to", args.to, "the largest");
  app.add_flag("--pairs", args.pairs, "what sharing gains");
  app.add_flag("--check", args.check, "of --pairs: end with 1 where more budget is slower");
  CLI11_PARSE(app, argc, argv);
  std::vector<StepShape> shapes;
  for (const Network& network : kNetworks) {
    const auto& asked = args.networks;
    if (asked.empty() || std::find(asked.begin(), asked.end(), network.name) != asked.end()) {
      shapes.push_back(shape_of(network, args));
    }
  }
  if (!args.pairs) {
    std::printf("%-12s %8s %9s %8s %8s %9s %7s %7s %7s %8s\n", "two of", "buffers", "step, ms",
                "alive", "pool", "over", "shift,s", "place,s", "waits,s", "waits");
    for (const StepShape& shape : shapes) place_copies(shape);
    return 0;
  }
  std::printf("%-12s %-12s %5s", "", "", "least");
  for (double part = args.from; part < args.to + 1e-9; part += 0.1) std::printf("  %8.1f", part);
  std::printf("  %6s  %6s %6s  %11s\n", "all", "bound", "of it", "use");
  int slower = 0;
  for (size_t a = 0; a < shapes.size(); ++a) {
    for (size_t b = a; b < shapes.size(); ++b) slower += share_pair(shapes[a], shapes[b], args);
  }
  return args.check && slower ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("corun_bench", run, argc, argv); }
