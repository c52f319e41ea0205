// What dynamic managers decide, and what deciding takes.
//
// By itself: microseconds for each node, and for each storage that is released, over a chain of
// --nodes operators and its mirror, whose values are kept for the mirror: one storage a node.
// Values are of --sizes sizes, each four times the one before; chains of one size take turns. Time
// of a release: what deciding takes longer where memory is short, divided by the number of
// releases. Nodes that run again count as nodes.
//
// --sweep: every configuration that ships at its own batch size and budgets of 90 to 30 % of its
// plan: what the link alone bounds (link_bound_ms), the predicted step of planned swapping, DELTA
// with copies alone, DELTA, DTR, Echo with planned swapping. A row says `slower` where planned
// swapping is slower than copies alone, or Echo with planned swapping slower than a manager, by
// more than a thousandth; --check ends with 1 then.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "core/builder.h"
#include "memory/compile.h"
#include "memory/dynamic/manage.h"
#include "memory/swap/swap.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/reduce.h"
#include "train/config/config.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"

namespace {

using namespace pal;

constexpr size_t kName = 24;  // columns
constexpr double kEnough = 1e-3;

struct Args {
  std::vector<std::string> configs, sets;
  size_t nodes = 20'000, sizes = 1;
  std::string profile = "a100_80";
  bool sweep = false, check = false;
};

Program chains(const Args& args) {
  Builder b;
  std::vector<Val> kept, ends;
  for (size_t i = 0; i < args.sizes; ++i) {
    const int64_t elements = int64_t(1) << 20 >> 2 * i;
    ends.push_back(b.input("x" + std::to_string(i), {{elements}}));
  }
  for (size_t i = 0; i < args.nodes / 2; ++i) {
    Val& end = ends[i % args.sizes];
    kept.push_back(end = tanh(end));
  }
  for (size_t i = kept.size(); i-- > 0;) {
    Val& end = ends[i % args.sizes];
    end = mul(end, kept[i]);
  }
  for (size_t i = 0; i < args.sizes; ++i) b.output("loss" + std::to_string(i), sum_all(ends[i]));
  Program p = b.take();
  for (NodeId n = NodeId(int32_t(args.nodes / 2)); n < p.node_count(); ++n) {
    p.node(n).phase = Phase::backward;
  }
  return p;
}

double us_of(const StepFacts& facts, const DynamicOptions& options, int64_t slab_bytes,
             Decisions* out) {
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    *out = decide(facts, options, slab_bytes, int64_t(1) << 50);
    if (i == 0 || out->stats.search_us < best) best = out->stats.search_us;
  }
  return best;
}

void measure_deciding(const Args& args) {
  const Program p = chains(args);
  const Storages storages = assign_storages(p, {}, {.inplace = false});
  const StepFacts facts(p, storages, load_profile(args.profile));
  int64_t all = 0;
  for (const int64_t bytes : facts.bytes) all += bytes;
  std::printf("%-16s %9s %12s %9s %9s %12s\n", "manager", "storages", "us a node", "releases",
              "again", "us a release");
  const auto row = [&](const std::string& name, const DynamicOptions& options) {
    Decisions ample, tight;
    const double idle = us_of(facts, options, 2 * all, &ample);
    double busy = 0;
    try {
      busy = us_of(facts, options, all * 45 / 100, &tight);
    } catch (const BudgetError& error) {
      std::printf("%-16s %9zu %12.2f  %s\n", name.c_str(), storages.list.size(),
                  idle / double(p.nodes.size()), error.what());
      return;
    }
    const auto nodes = double(p.nodes.size());
    const int64_t releases = tight.stats.evictions + tight.stats.offloads;
    const double again = idle / nodes * double(tight.stats.recomputes);
    std::printf("%-16s %9zu %12.2f %9lld %9lld %12.2f\n", name.c_str(), storages.list.size(),
                idle / nodes, static_cast<long long>(releases),
                static_cast<long long>(tight.stats.recomputes),
                releases ? (busy - idle - again) / double(releases) : 0);
    std::fflush(stdout);
  };
  for (const Filter filter : {Filter::base, Filter::lru, Filter::greedy}) {
    row("delta " + name_of(filter), {.manager = Manager::delta, .filter = filter, .start = 1});
  }
  for (const DtrHeuristic heuristic : {DtrHeuristic::full, DtrHeuristic::eq, DtrHeuristic::local,
                                       DtrHeuristic::lru, DtrHeuristic::size, DtrHeuristic::msps}) {
    row("dtr " + name_of(heuristic), {.manager = Manager::dtr, .dtr = heuristic});
  }
}

// The predicted step within the budget; nothing where it cannot be kept to.
std::optional<double> ms_within(const Program& program, KernelCache& cache,
                                const CompileOptions& options) {
  try {
    return compile(program, cache, StateLayout(program), options).time->step_ms;
  } catch (const BudgetError&) {
    return {};
  }
}

// How many rows are slower.
int sweep(const std::string& name, const Args& args) {
  const auto step = largest_step(name, args.sets, args.nodes, padded(name, kName));
  if (!step) return 0;
  const Program& program = step->program;
  KernelCache cache(choose_device(step->config.device));
  CompileOptions plain = compile_options(step->config.memory);
  plain.profile = load_profile(args.profile);
  const Compiled all = compile(program, cache, StateLayout(program), plain);
  const ByNode<int64_t> workspace = workspace_bytes(all.kernels);
  int slower = 0;
  for (int part = 90; part >= 30; part -= 10) {
    CompileOptions options = plain;
    options.budget = all.plan.device().bytes / 100 * part;
    std::vector<std::optional<double>> ms;
    const auto add = [&](const CompileOptions& some) {
      ms.push_back(ms_within(program, cache, some));
    };
    CompileOptions planned = options, copies = options, delta = options, dtr = options;
    planned.swap.method = Swap::planned;
    add(planned);
    copies.dynamic.manager = delta.dynamic.manager = Manager::delta;
    copies.dynamic.evicts = false;
    add(copies);
    add(delta);
    dtr.dynamic.manager = Manager::dtr;
    add(dtr);
    planned.recompute = Recompute::echo;
    add(planned);
    const auto beaten = [&](size_t ours, size_t theirs) {
      return ms[theirs] && (!ms[ours] || *ms[ours] > *ms[theirs] * (1 + kEnough));
    };
    const bool bad = beaten(0, 1) || beaten(4, 2) || beaten(4, 3);
    slower += bad;
    const double bound = link_bound_ms(
        all.program, {.budget = options.budget, .device = *plain.profile, .workspace = workspace});
    std::string line =
        padded(name, kName) + printed(" %3d %%  %9.1f %9.1f", part, all.time->step_ms, bound);
    for (const auto& one : ms) line += one ? printed(" %9.1f", *one) : std::string("         -");
    std::printf("%s%s\n", line.c_str(), bad ? "  slower" : "");
    std::fflush(stdout);
  }
  return slower;
}

int run(int argc, char** argv) {
  CLI::App app("What dynamic managers decide, and what deciding takes.");
  Args args;
  app.add_option("--config", args.configs, "configurations; all")->take_all();
  app.add_option("--set", args.sets, "key=value over them")->take_all();
  app.add_option("--nodes", args.nodes, "of the chain; of --sweep: longer steps are passed over");
  app.add_option("--sizes", args.sizes, "of the chain's values")->check(CLI::Range(1, 10));
  app.add_option("--profile", args.profile, "the device whose times count");
  app.add_flag("--sweep", args.sweep, "compare managers with planned swapping at falling budgets");
  app.add_flag("--check", args.check, "of --sweep: end with 1 where a manager is faster");
  CLI11_PARSE(app, argc, argv);
  if (!args.sweep) return measure_deciding(args), 0;
  std::printf("%-24s %5s %10s %9s %9s %9s %9s %9s %9s\n", "config", "of", "plan, ms", "bound",
              "planned", "copies", "delta", "dtr", "echo+swap");
  int slower = 0;
  for (const std::string& name : args.configs.empty() ? shipped_configs() : args.configs) {
    unless_refused(padded(name, kName), [&] { slower += sweep(name, args); });
  }
  std::printf("%d rows slower\n", slower);
  return args.check && slower ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("manager_bench", run, argc, argv); }
