// Where the time of a training step goes: the step of any configuration, run as `pal train` runs
// it, on full batches of random samples, and a table of its time by operator with the rate that
// products reach; with --profile, what the roofline says of each operator beside it (a
// device.threads of 1 has one thread's rates). bench/compare/step.sh puts the same numbers beside
// PyTorch's.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/run_bench.h"
#include "core/accelerator.h"
#include "core/error.h"
#include "core/op.h"
#include "core/scalars.h"
#include "memory/price/predict.h"
#include "train/config/profile.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace {

using namespace pal;

struct Row {
  double ms = 0, predicted_ms = 0, flops = 0, bytes = 0;
  int64_t nodes = 0;
};

using Table = std::vector<std::pair<std::string, Row>>;

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

bool is_product(const std::string& name) {
  return name.find("matmul") != std::string::npos || name.starts_with("conv");
}

// What a node counts under: the operator, and for products and convolutions their shape.
std::string kind_of(const Program& program, const Node& node, bool shapes) {
  std::string name = node.op->name;
  if (!shapes || !is_product(name)) return name;
  return name + " " + to_string(program.value(node.out[0]).spec) + " " + to_string(node.phase);
}

Cost cost_of_node(const Program& program, const Node& node) {
  Specs in, out;
  for (ValueId v : node.in) in.push_back(v == kNone ? TensorSpec{} : program.value(v).spec);
  for (ValueId v : node.out) out.push_back(v == kNone ? TensorSpec{} : program.value(v).spec);
  return cost_of(*node.op, in, out, node.attrs);
}

double product_flops(const Program& program) {
  double flops = 0;
  for (const Node& node : program.nodes) {
    if (is_product(node.op->name)) flops += cost_of_node(program, node).flops;
  }
  return flops;
}

Table by_operator(const Program& program, const std::vector<std::vector<int64_t>>& runs,
                  bool shapes, const ByNode<double>& predicted_ms) {
  std::map<std::string, Row> rows;
  for (NodeId n = 0; n < program.node_count(); ++n) {
    const Node& node = program.node(n);
    Row& row = rows[kind_of(program, node, shapes)];
    std::vector<double> times;
    for (auto& run : runs) times.push_back(double(run[size_t(n)]) * 1e-6);
    row.ms += median(times);
    if (!predicted_ms.empty()) row.predicted_ms += predicted_ms[n];
    const Cost cost = cost_of_node(program, node);
    row.flops += cost.flops, row.bytes += cost.bytes;
    ++row.nodes;
  }
  Table table(rows.begin(), rows.end());
  std::stable_sort(table.begin(), table.end(),
                   [](auto& a, auto& b) { return a.second.ms > b.second.ms; });
  return table;
}

void print(const Table& table, double step_ms, bool predicted) {
  double total = 0, all_predicted = 0;
  for (auto& [name, row] : table) total += row.ms, all_predicted += row.predicted_ms;
  std::printf("%-44s %7s %9s %7s %9s%s\n", "operator", "nodes", "ms", "share", "GFLOP/s",
              predicted ? "  predicted, ms  measured / predicted" : "");
  for (auto& [name, row] : table) {
    std::printf("%-44s %7lld %9.2f %6.1f%%", name.c_str(), static_cast<long long>(row.nodes),
                row.ms, 100 * row.ms / total);
    if (is_product(name)) {
      std::printf(" %9.1f", row.flops * 1e-6 / row.ms);
    } else if (predicted) {
      std::printf(" %9s", "");
    }
    if (predicted) std::printf(" %14.2f %21.2f", row.predicted_ms, row.ms / row.predicted_ms);
    std::printf("\n");
  }
  std::printf("%-44s %7s %9.2f", "all nodes, traced", "", total);
  if (predicted) std::printf(" %32.2f %21.2f", all_predicted, total / all_predicted);
  std::printf("\n");
  std::printf("%-44s %7s %9.2f\n", "the step, not traced", "", step_ms);
}

int run(int argc, char** argv) {
  CLI::App app("Times a training step of a configuration and breaks it down.");
  std::string config_name = "nmt_iwslt", profile_name;
  std::vector<int64_t> lengths = {30, 30};
  std::vector<std::string> sets;
  int warmup = 2, steps = 5;
  bool json = false, shapes = false, operators = false, real = false;
  app.add_option("--config", config_name, "a configuration");
  app.add_option("--set", sets, "key=value over it")->take_all();
  app.add_option("--bucket", lengths, "S,T: lengths of every sample, as of `pal plan`")
      ->delimiter(',')
      ->expected(2);
  app.add_option("--warmup", warmup, "steps run first, not timed");
  app.add_option("--steps", steps, "steps timed; the median counts")->check(CLI::PositiveNumber);
  app.add_flag("--real", real, "read the configuration's data; else data.synthetic is set");
  app.add_flag("--shapes", shapes, "products and convolutions by shape and phase");
  app.add_option("--profile", profile_name, "also predict: a device's name, cpu, or a file");
  app.add_flag("--json", json, "one object in place of the table");
  app.add_flag("--operators", operators, "the object has the table too");
  CLI11_PARSE(app, argc, argv);

  std::vector<Override> overrides;
  if (!real) overrides.push_back(parse_set("data.synthetic=true"));
  for (auto& s : sets) overrides.push_back(parse_set(s));
  const Config config = load_config(find_config(config_name), overrides);
  const std::pair<int64_t, int64_t> bucket{lengths.at(0), lengths.at(1)};
  const std::unique_ptr<Task> task = make_task(config);
  const Device on = training_device(config);
  CompileOptions options = compile_options(config.memory);
  options.branch_device = branch_device(config.device, on);
  ProgramSet programs(std::move(options), on);
  Executable& step = programs.add("step", record_plan_step(*task, config, bucket));
  initialise(programs, 1);
  const BatchInfo batch = task->fill_full(step, bucket);

  StepScalars scalars{.learning_rate = float(*config.train.lr), .tokens = float(batch.normalizer)};
  std::vector<double> seconds;
  double first_loss = 0;
  auto run_step = [&] {
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    const auto begin = std::chrono::steady_clock::now();
    step.run();
    const double loss = double(*step.output("loss"));  // waits for an accelerator
    if (scalars.step++ == 0) first_loss = loss;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  for (int i = 0; i < warmup; ++i) run_step();
  for (int i = 0; i < steps; ++i) seconds.push_back(run_step());
  const double middle = median(seconds);
  const double samples = double(batch.samples) / middle, tokens = double(batch.tokens) / middle;
  const double last_loss = double(*step.output("loss"));
  Table table;
  if (!json || operators) {
    step.runner().set_options({.trace = true});
    std::vector<std::vector<int64_t>> runs;
    for (int i = 0; i < steps; ++i) {
      run_step();
      runs.push_back(step.runner().node_times());
    }
    step.runner().set_options({});
    ByNode<double> predicted_ms;
    if (!profile_name.empty()) {
      DeviceProfile profile = load_profile(profile_name);
      if (profile.thread_f32 > 0) {
        profile = part_of(profile, double(programs.device().threads) / profile.units);
      }
      predicted_ms = predict(step.program(), profile, &step.compiled().storages).node_ms;
    }
    table = by_operator(step.program(), runs, shapes, predicted_ms);
  }
  if (json) {
    // One more step over a canary: how far up it touches.
    const int64_t planned = step.compiled().plan.device().bytes;
    step.memory().fill_canary();
    run_step();
    const auto& accelerator = programs.device().accelerator;
    nlohmann::ordered_json object{{"program", "Palimpsest"},
                                  {"threads", programs.device().threads},
                                  {"device", accelerator ? accelerator->description() : "cpu"},
                                  {"planned_bytes", planned},
                                  {"recorded_peak_bytes", step.memory().recorded_peak()},
                                  {"product_gflop", 1e-9 * product_flops(step.program())},
                                  {"step_ms", 1e3 * middle},
                                  {"samples_per_s", samples},
                                  {"tokens_per_s", tokens},
                                  {"first_loss", first_loss},
                                  {"last_loss", last_loss}};
    for (auto& [name, row] : table) {
      object["operators"].push_back({{"name", name},
                                     {"nodes", row.nodes},
                                     {"ms", row.ms},
                                     {"gflop", 1e-9 * row.flops},
                                     {"mb", 1e-6 * row.bytes}});
    }
    std::printf("%s\n", object.dump().c_str());
    return 0;
  }
  print(table, 1e3 * middle, !profile_name.empty());
  std::printf("%.1f samples/s, %.0f tokens/s, %d threads\n", samples, tokens,
              programs.device().threads);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("step_bench", run, argc, argv); }
