// Plans of every configuration that ships, with every way to recompute and to schedule: the placed
// height against the most bytes alive, and what planning takes.
//
// A configuration's own batch size and its largest bucket, unless told otherwise (--help).
// The last column of a row is a hash of the plan, of its nodes in order and of every offset: two
// versions of the program that print the same hashes made the same plans.
// One thread plans; seconds are processor time, of every pass and check of compile().
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "core/print.h"
#include "train/config/config.h"
#include "train/loop/run_options.h"

namespace {

using namespace pal;

// FNV-1a of the printed program and of every storage's offset.
uint64_t hash_of(const Compiled& compiled) {
  uint64_t hash = 14695981039346656037ull;
  const auto mix = [&](const void* data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
      hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ull;
  };
  const std::string text = print(compiled.program);
  mix(text.data(), text.size());
  mix(compiled.plan.offset.data(), compiled.plan.offset.size() * sizeof(int64_t));
  return hash;
}

struct Args {
  std::vector<std::string> configs;  // empty: all
  std::vector<std::string> sets;
  bool check = false, full = false;
  size_t nodes = 60'000;
};

struct Total {
  int plans = 0, above = 0;
  double worst = 0, compile = 0;  // per cent above the bound; seconds

  void add(const Total& other) {
    plans += other.plans, above += other.above;
    worst = std::max(worst, other.worst), compile = std::max(compile, other.compile);
  }
};

void plan(const std::string& name, const std::string& batch, const Config& config, const Task& task,
          int bucket, const Args& args, KernelCache& cache, Total& total) {
  const auto lengths = task.bucket_lengths(bucket);
  char row[80];  // how all rows of this step begin
  std::snprintf(row, sizeof row, "%-18s %6s %4lld,%-4lld", name.c_str(), batch.c_str(),
                static_cast<long long>(lengths.first), static_cast<long long>(lengths.second));
  const auto program = step_of_at_most(args.nodes, task, config, lengths, row);
  if (!program) return;
  const StateLayout layout(*program);
  for (const Schedule schedule : {Schedule::program, Schedule::lifetime}) {
    for (const Recompute method :
         {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
      for (const bool fuse : {true, false}) {
        if (method == Recompute::none && !fuse) continue;
        CompileOptions options = compile_options(config.memory);
        options.schedule = schedule, options.recompute = method, options.fuse_recompute = fuse;
        const double start = processor_seconds();
        const Compiled c = compile(*program, cache, layout, options);
        const double seconds = processor_seconds() - start;
        const Region& device = c.plan.device();
        const double above = 100 * (double(device.bytes) / double(device.lower_bound) - 1);
        total.add({1, device.bytes > device.lower_bound, above, seconds});
        std::printf("%s %-8s %-6s%-8s %6zu %15lld %8.4f %8.2f %016llx\n", row,
                    schedule == Schedule::program ? "program" : "lifetime", to_string(method),
                    fuse ? "" : " unfused", c.program.nodes.size(),
                    static_cast<long long>(device.bytes), above, seconds,
                    static_cast<unsigned long long>(hash_of(c)));
        std::fflush(stdout);
      }
    }
  }
}

// Every plan of a configuration, and a row for docs/results/planner.md.
void sweep(const std::string& name, const Args& args, Total& total) {
  Total own;
  for (const char* batch : {"", "16", "200"}) {
    if (*batch && !args.full) continue;
    std::vector<std::string> sets;
    if (*batch)
      sets.insert(sets.end(), {"train.batch_words=null", std::string("train.batch_size=") + batch});
    sets.insert(sets.end(), args.sets.begin(), args.sets.end());
    unless_refused(padded(name, 18), [&] {
      const Config config = with_made_up_data(name, sets);
      const auto task = make_task(config);
      KernelCache cache(choose_device(config.device));
      const int last = task->bucket_count() - 1;
      std::set<int> buckets{last};
      if (args.full) buckets.insert({0, last / 2});
      for (int bucket : buckets)
        plan(name, *batch ? batch : "own", config, *task, bucket, args, cache, own);
    });
  }
  if (own.plans > 0) {
    std::printf("| %s | %d | %d | %.4f %% | %.2f s |\n", name.c_str(), own.plans, own.above,
                own.worst, own.compile);
  }
  std::fflush(stdout);
  total.add(own);
}

int run(int argc, char** argv) {
  CLI::App app("Plans of the configurations that ship.");
  Args args;
  app.add_option("--config", args.configs, "configurations; all")->take_all();
  app.add_option("--set", args.sets, "key=value over them")->take_all();
  app.add_option("--nodes", args.nodes, "steps of more are passed over");
  app.add_flag("--full", args.full, "batch sizes 16 and 200, smallest and middle bucket too");
  app.add_flag("--check", args.check, "end with 1 where a plan is above its bound");
  CLI11_PARSE(app, argc, argv);
  std::printf("%-18s %6s %9s %-8s %-14s %6s %15s %8s %8s\n", "config", "batch", "bucket",
              "schedule", "recompute", "nodes", "height", "above %", "seconds");
  Total total;
  for (const std::string& name : args.configs.empty() ? shipped_configs() : args.configs)
    sweep(name, args, total);
  std::printf("%d plans, %d above the bound, by at most %.4f %%; at most %.2f s\n", total.plans,
              total.above, total.worst, total.compile);
  return args.check && total.above > 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("plan_bench", run, argc, argv); }
