// Echo's answers for several allowed overheads: the bytes that the step then needs, what it costs
// by the roofline that echo itself uses, and the seconds of the pass.
//
//   bench_echo_bench [--config NAME]... [--overhead O]... [--apart] [--nodes N] [--set
//   KEY=VALUE]...
//
// Every configuration that ships at its own batch size, its largest bucket, with made-up data.
// Bytes are those alive at the peak after all passes, before placement. --apart: gradients are not
// fused with what is made again for them. A row says `rises` where more time costs bytes. One
// thread; seconds are processor time.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "core/error.h"
#include "memory/compile.h"
#include "memory/recompute/echo_trials.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "train/config/config.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace {

using namespace pal;

struct Args {
  std::vector<std::string> configs, sets;  // no configs: all
  std::vector<double> overheads;
  bool apart = false;
  size_t nodes = 60'000;
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

std::vector<std::string> shipped_configs() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(find_config("nmt_small").parent_path())) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void measure(const std::string& name, const Args& args) {
  const Config config = with_made_up_data(name, args.sets);
  const auto task = make_task(config);
  KernelCache cache(choose_device(config.device));
  const Program program =
      record_plan_step(*task, config, task->bucket_lengths(task->bucket_count() - 1));
  if (program.nodes.size() > args.nodes) {
    std::printf("%-24s passed over: %zu nodes\n", name.c_str(), program.nodes.size());
    return;
  }
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

}  // namespace

int main(int argc, char** argv) {
  Args args;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag.starts_with("--benchmark_list")) return 0;  // Google Benchmark's: nothing to list
    if (flag.starts_with("--benchmark_")) continue;
    if (flag == "--apart") {
      args.apart = true;
      continue;
    }
    ++i;
    if (flag == "--config") {
      args.configs.push_back(value);
    } else if (flag == "--overhead") {
      args.overheads.push_back(std::atof(value));
    } else if (flag == "--nodes") {
      args.nodes = size_t(std::atoll(value));
    } else if (flag == "--set") {
      args.sets.push_back(value);
    } else {
      return std::fprintf(stderr, "echo_bench: unknown flag %s\n", flag.c_str()), 2;
    }
  }
  if (args.overheads.empty()) args.overheads = {0.02, 0.05, 0.09, 0.15, 0.3, 1};
  std::printf("%-24s %6s %8s %13s %9s %7s\n", "config", "nodes", "allowed", "bytes", "added",
              "seconds");
  for (const std::string& name : args.configs.empty() ? shipped_configs() : args.configs) {
    try {
      measure(name, args);
    } catch (const UsageError& error) {
      std::printf("%-24s passed over: %s\n", name.c_str(), error.what());
    }
  }
}
