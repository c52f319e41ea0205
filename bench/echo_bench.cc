// Echo's answers for several allowed overheads: the bytes that the step then needs, what it costs
// by the roofline that echo itself uses, and the seconds of the pass.
//
// Every configuration that ships at its own batch size, its largest bucket, with made-up data.
// Bytes are those alive at the peak after all passes, before placement. --apart: gradients are not
// fused with what is made again for them. A row says `rises` where more time costs bytes. One
// thread; seconds are processor time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "memory/compile.h"
#include "memory/recompute/echo_trials.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "train/config/config.h"
#include "train/loop/run_options.h"

namespace {

using namespace pal;

constexpr size_t kName = 24;  // columns

struct Args {
  std::vector<std::string> configs, sets;  // no configs: all
  std::vector<double> overheads{0.02, 0.05, 0.09, 0.15, 0.3, 1};
  bool apart = false;
  size_t nodes = 60'000;
};

void measure(const std::string& name, const Args& args) {
  const auto step = largest_step(name, args.sets, args.nodes, padded(name, kName));
  if (!step) return;
  const auto& [config, program] = *step;
  KernelCache cache(choose_device(config.device));
  const StateLayout layout(program);
  CompileOptions options = compile_options(config.memory);
  options.fuse_recompute = !args.apart, options.recompute = Recompute::none;
  Compiled out;
  const int64_t without = least_bytes(program, cache, layout, options, &out);
  const double ms = predict(out.program, kEchoDevice).step_ms;
  std::printf("%-24s %6zu %8s %13lld %9.3f\n", name.c_str(), program.nodes.size(), "none",
              static_cast<long long>(without), ms);
  options.recompute = Recompute::echo;
  int64_t before = without;
  for (double overhead : args.overheads) {
    options.recompute_options.overhead = overhead;
    const int64_t bytes = least_bytes(program, cache, layout, options, &out);
    const double added = predict(out.program, kEchoDevice).step_ms / ms - 1;
    const double start = processor_seconds();
    recompute(program, Recompute::echo, [](const Program& p) { return peak_bytes(p); }, nullptr,
              options.recompute_options, {.fuse = options.fuse_recompute});
    const double seconds = processor_seconds() - start;
    std::printf("%-24s %6zu %8g %13lld %+8.2f%% %7.3f%s\n", name.c_str(), program.nodes.size(),
                overhead, static_cast<long long>(bytes), 100 * added, seconds,
                bytes > before ? " rises" : "");
    std::fflush(stdout);
    before = bytes;
  }
}

int run(int argc, char** argv) {
  CLI::App app("What echo answers for several allowed overheads.");
  Args args;
  app.add_option("--config", args.configs, "configurations; all")->take_all();
  app.add_option("--set", args.sets, "key=value over them")->take_all();
  app.add_option("--overhead", args.overheads, "allowed, as a part of the step's time")->take_all();
  app.add_option("--nodes", args.nodes, "steps of more are passed over");
  app.add_flag("--apart", args.apart, "gradients are not fused with what is made again for them");
  CLI11_PARSE(app, argc, argv);
  std::printf("%-24s %6s %8s %13s %9s %7s\n", "config", "nodes", "allowed", "bytes", "added",
              "seconds");
  for (const std::string& name : args.configs.empty() ? shipped_configs() : args.configs) {
    unless_refused(padded(name, kName), [&] { measure(name, args); });
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("echo_bench", run, argc, argv); }
