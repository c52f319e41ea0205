// What memory.encode makes of every plan: the bytes that the step then needs, and what it costs by
// the roofline that echo uses.
//
// Every configuration that ships at its own batch size, its largest bucket, with made-up data;
// without recomputation and with echo. Sparse maps (ssdc) have room for --density of their
// elements, an assumption. Bytes are those alive at the peak after all passes, before placement,
// state included. A row says `rises` where a form costs bytes; --check ends with 1 then.
//
// --ours: Baselines::ours over the placed plan instead, for maps alone (plan_maps_alone) and for
// everything, with exact forms and with the formats of Gist's figure 12 beside them. `bound` is
// ours over the most that one node reads and writes of maps: no encoding gives more. `at` is the
// node where the bytes of maps are most.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/made_up.h"
#include "bench/run_bench.h"
#include "memory/compile.h"
#include "memory/recompute/echo_trials.h"
#include "memory/storages/lifetimes.h"
#include "train/config/config.h"
#include "train/config/wording.h"
#include "train/loop/run_options.h"
#include "train/papers/reproduce_gist.h"
#include "train/report/plan_densities.h"

namespace {

using namespace pal;

constexpr size_t kName = 24;  // columns

struct Args {
  std::vector<std::string> configs, sets;  // no configs: all
  size_t nodes = 60'000;
  std::string density = "0.5";
  bool check = false, ours = false;
};

struct Row {
  const char* name;
  Encodings encode;
};
Encodings with_bits(Encodings encode) {
  encode.binarize = encode.dropout_bits = true;
  return encode;
}
const Row kRows[] = {{"none", {}},
                     {"bits", with_bits({})},
                     {"fp16", {.dpr = Dpr::fp16}},
                     {"bits+fp16", with_bits({.dpr = Dpr::fp16})},
                     {"bits+fp10", with_bits({.dpr = Dpr::fp10})},
                     {"bits+fp8", with_bits({.dpr = Dpr::fp8})},
                     {"ssdc", {.ssdc = true}},
                     {"bits+ssdc", with_bits({.ssdc = true})},
                     {"all+fp16", with_bits({.dpr = Dpr::fp16, .ssdc = true})},
                     {"all+fp8", with_bits({.dpr = Dpr::fp8, .ssdc = true})}};

std::string times(int64_t before, int64_t after) {
  return printed("%6.2fx", double(before) / double(after));
}

// The node at which most bytes of maps are alive.
std::string peak_node(const MapsAlone& maps) {
  const Storages storages = assign_storages(maps.program, {}, {.maps_alone = true});
  const Peak peak = peak_of(storages, lifetimes_of(maps.program, storages));
  return layer_of(maps.program, maps.program.node(NodeId(peak.moment / 2)));
}

// A line for each set of forms: ours and placed, of maps alone and of everything.
void measure_ours(const std::string& name, const Args& args, const PlanDensities& densities) {
  const auto step = largest_step(name, args.sets, args.nodes, padded(name, kName));
  if (!step) return;
  const auto& [config, program] = *step;
  KernelCache cache(choose_device(config.device));
  const StateLayout layout(program);
  const std::string network = name.substr(0, name.rfind('_'));
  const std::string format = smallest_format(network == "googlenet" ? "inception" : network);
  Encodings lossless{.binarize = true, .dropout_bits = true, .ssdc = true, .ssdc_margin = 1};
  densities.put_into(lossless, program);
  Encodings lossy = lossless;
  read_name(format, lossy.dpr.emplace());
  const std::pair<std::string, Encodings> rows[] = {
      {"none", {}}, {"lossless", lossless}, {format, lossy}};
  const GistFloor floor = gist_floor(program);
  CompileOptions options = compile_options(config.memory);
  for (const Recompute method : {Recompute::none, Recompute::echo}) {
    for (const auto& [forms, encodings] : rows) {
      options.recompute = method, options.encode = encodings;
      const MapsAlone maps = plan_maps_alone(program, cache, options);
      const Compiled all = compile(program, cache, layout, options);
      const int64_t ours = all.baselines.ours, placed = all.plan.device().bytes;
      std::printf("%-24s %-5s %-9s %12lld %12lld %s %s %14lld %12lld %s  %s\n", name.c_str(),
                  to_string(method), forms.c_str(), static_cast<long long>(maps.ours),
                  static_cast<long long>(maps.bytes), times(maps.ours, maps.bytes).c_str(),
                  times(maps.ours, floor.bytes).c_str(), static_cast<long long>(ours),
                  static_cast<long long>(placed), times(ours, placed).c_str(),
                  peak_node(maps).c_str());
      std::fflush(stdout);
    }
  }
}

// How many rows rise.
int measure(const std::string& name, const Args& args, const PlanDensities& densities) {
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
      densities.put_into(options.encode, program), options.encode.ssdc_margin = 1;
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
  app.add_option(
      "--density", args.density,
      "nonzeros of maps with zeros, assumed, or a run that logged them: room for just them");
  app.add_flag("--ours", args.ours, "the recorded step over the placed plan, also of maps alone");
  app.add_flag("--check", args.check, "end with 1 where a form costs bytes");
  CLI11_PARSE(app, argc, argv);
  const PlanDensities densities(args.density, true);
  const auto names = args.configs.empty() ? shipped_configs() : args.configs;
  if (args.ours) {
    std::printf("%-24s %-5s %-9s %12s %12s %7s %7s %14s %12s %7s  %s\n", "config", "again",
                "encode", "maps: ours", "placed", "fewer", "bound", "in all: ours", "placed",
                "fewer", "at");
    for (const std::string& name : names) {
      unless_refused(padded(name, kName), [&] { measure_ours(name, args, densities); });
    }
    return 0;
  }
  std::printf("%-24s %-5s %-10s %13s %6s %9s\n", "config", "again", "encode", "bytes", "fewer",
              "added");
  int rises = 0;
  for (const std::string& name : names) {
    unless_refused(padded(name, kName), [&] { rises += measure(name, args, densities); });
  }
  std::printf("%d rows rise\n", rises);
  return args.check && rises ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("encoded_plan_bench", run, argc, argv); }
