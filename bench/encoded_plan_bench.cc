// What memory.encode makes of every plan: the bytes that the step then needs, and what it costs by
// the roofline that echo uses.
//
// Every configuration that ships at its own batch size, its largest bucket, with made-up data;
// without recomputation and with echo. Sparse maps (ssdc) have room for --density of their
// elements, an assumption. Bytes are those alive at the peak after all passes, before placement,
// state included. A row says `rises` where a form costs bytes; --check ends with 1 then.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "memory/compile.h"
#include "memory/recompute/echo_trials.h"
#include "train/config/config.h"
#include "train/loop/run_options.h"

namespace {

using namespace pal;

constexpr size_t kName = 24;  // columns

struct Args {
  std::vector<std::string> configs, sets;  // no configs: all
  size_t nodes = 60'000;
  double density = 0.5;
  bool check = false;
};

struct Row {
  const char* name;
  Encodings encode;
};
const Row kRows[] = {{"none", {}},
                     {"bits", kBits},
                     {"fp16", {.dpr = Dpr::fp16}},
                     {"bits+fp16", {true, true, Dpr::fp16, {}}},
                     {"bits+fp10", {true, true, Dpr::fp10, {}}},
                     {"bits+fp8", {true, true, Dpr::fp8, {}}},
                     {"ssdc", {.ssdc = true}},
                     {"bits+ssdc", {.binarize = true, .dropout_bits = true, .ssdc = true}},
                     {"all+fp16", {true, true, Dpr::fp16, {}, true}},
                     {"all+fp8", {true, true, Dpr::fp8, {}, true}}};

// How many rows rise.
int measure(const std::string& name, const Args& args) {
  const auto step = largest_step(name, args.sets, args.nodes, padded(name, kName));
  if (!step) return 0;
  const auto& [config, program] = *step;
  KernelCache cache(choose_device(config.device));
  const StateLayout layout(program);
  CompileOptions options = compile_options(config.memory);
  int rises = 0;
  for (const Recompute method : {Recompute::none, Recompute::echo}) {
    int64_t plain = 0;
    double ms = 0;
    for (const Row& row : kRows) {
      options.recompute = method, options.encode = row.encode;
      options.encode.assumed_density = args.density, options.encode.ssdc_margin = 1;
      Compiled out;
      const int64_t bytes = least_bytes(program, cache, layout, options, &out);
      const double now = predict(out.program, kEchoDevice).step_ms;
      if (!row.encode.any()) plain = bytes, ms = now;
      std::printf("%-24s %-5s %-10s %13lld %6.3f %+8.2f%%%s\n", name.c_str(), to_string(method),
                  row.name, static_cast<long long>(bytes), double(plain) / double(bytes),
                  100 * (now / ms - 1), bytes > plain ? " rises" : "");
      std::fflush(stdout);
      rises += bytes > plain;
    }
  }
  return rises;
}

int run(int argc, char** argv) {
  CLI::App app("What memory.encode makes of every plan.");
  Args args;
  app.add_option("--config", args.configs, "configurations; all")->take_all();
  app.add_option("--set", args.sets, "key=value over them")->take_all();
  app.add_option("--nodes", args.nodes, "steps of more are passed over");
  app.add_option("--density", args.density,
                 "nonzeros of maps with zeros, assumed: room for just them");
  app.add_flag("--check", args.check, "end with 1 where a form costs bytes");
  CLI11_PARSE(app, argc, argv);
  std::printf("%-24s %-5s %-10s %13s %6s %9s\n", "config", "again", "encode", "bytes", "fewer",
              "added");
  int rises = 0;
  for (const std::string& name : args.configs.empty() ? shipped_configs() : args.configs) {
    unless_refused(padded(name, kName), [&] { rises += measure(name, args); });
  }
  std::printf("%d rows rise\n", rises);
  return args.check && rises ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("encoded_plan_bench", run, argc, argv); }
