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
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/run_bench.h"
#include "core/accelerator.h"
#include "core/error.h"
#include "core/op.h"
#include "core/prepare.h"
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

struct Args {
  std::string config = "nmt_iwslt", profile;
  std::vector<int64_t> lengths = {30, 30};
  std::vector<std::string> sets;
  int warmup = 2, steps = 5;
  bool json = false, shapes = false, operators = false, real = false, canary = false;

  std::pair<int64_t, int64_t> bucket() const { return {lengths.at(0), lengths.at(1)}; }
};
// The exit status, where there is nothing more to be done.
std::optional<int> parse(int argc, char** argv, Args& args) {
  CLI::App app("Times a training step of a configuration and breaks it down.");
  app.add_option("--config", args.config, "a configuration");
  app.add_option("--set", args.sets, "key=value over it")->take_all();
  app.add_option("--bucket", args.lengths, "S,T: lengths of every sample, as of `pal plan`")
      ->delimiter(',')
      ->expected(2);
  app.add_option("--warmup", args.warmup, "steps run first, not timed");
  app.add_option("--steps", args.steps, "steps timed; the median counts")
      ->check(CLI::PositiveNumber);
  app.add_flag("--real", args.real, "read the configuration's data; else data.synthetic is set");
  app.add_flag("--shapes", args.shapes, "products and convolutions by shape and phase");
  app.add_option("--profile", args.profile, "also predict: a device's name, cpu, or a file");
  app.add_flag("--json", args.json, "one object in place of the table");
  app.add_flag("--operators", args.operators, "the object has the table too");
  app.add_flag("--canary", args.canary, "the object says how much of the plan a step touches");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return {};
}
Config config_of(const Args& args) {
  std::vector<Override> overrides;
  if (!args.real) overrides.push_back(parse_set("data.synthetic=true"));
  for (const std::string& s : args.sets) overrides.push_back(parse_set(s));
  return load_config(find_config(args.config), overrides);
}

// A step over full batches of made-up samples, or the configuration's.
class TimedStep {
 public:
  TimedStep(const Args& args, const Config& config)
      : task_(make_task(config)),
        programs_(options_of(config), training_device(config)),
        step_(programs_.add("step", record_plan_step(*task_, config, args.bucket()))) {
    initialise(programs_, 1);
    batch_ = task_->fill_full(step_, args.bucket());
    scalars_ = {.learning_rate = float(*config.train.lr), .tokens = float(batch_.normalizer)};
  }

  // Seconds.
  double run() {
    std::memcpy(step_.input(kScalarsInput), &scalars_, sizeof scalars_);
    const auto begin = std::chrono::steady_clock::now();
    step_.run();
    last_loss_ = double(*step_.output("loss"));  // waits for an accelerator
    if (scalars_.step++ == 0) first_loss_ = last_loss_;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  double median_of(int steps) {
    std::vector<double> seconds;
    for (int i = 0; i < steps; ++i) seconds.push_back(run());
    return median(seconds);
  }
  std::vector<std::vector<int64_t>> node_times(int steps) {
    const RunOptions plain = step_.runner().options();
    RunOptions traced = plain;
    traced.trace = true;
    step_.runner().set_options(traced);
    std::vector<std::vector<int64_t>> runs;
    for (int i = 0; i <= steps; ++i) {
      run();
      if (i > 0) runs.push_back(step_.runner().node_times());
    }
    step_.runner().set_options(plain);
    return runs;
  }
  // How far up a step over a canary touches.
  int64_t touched() {
    step_.runner().set_options({});
    step_.memory().fill_canary();
    run();
    return step_.memory().recorded_peak();
  }

  Executable& step() { return step_; }
  const Device& device() const { return programs_.device(); }
  const BatchInfo& batch() const { return batch_; }
  double first_loss() const { return first_loss_; }
  double last_loss() const { return last_loss_; }

 private:
  static CompileOptions options_of(const Config& config) {
    CompileOptions options = compile_options(config.memory);
    options.branch_device = branch_device(config.device, training_device(config));
    return options;
  }

  std::unique_ptr<Task> task_;
  ProgramSet programs_;
  Executable& step_;
  BatchInfo batch_;
  StepScalars scalars_;
  double first_loss_ = 0, last_loss_ = 0;
};

Prediction predicted(TimedStep& timed, const Args& args) {
  DeviceProfile profile = priced_as(load_profile(args.profile), timed.device().tf32);
  if (profile.thread_f32 > 0) {
    profile = part_of(profile, double(timed.device().threads) / profile.units);
  }
  return predict(timed.step().program(), profile, &timed.step().compiled().storages);
}

// `recorded`: whether the timed steps were.
nlohmann::ordered_json object_of(TimedStep& timed, const Args& args, double seconds, bool recorded,
                                 const std::optional<Prediction>& prediction, const Table& table) {
  const Compiled& compiled = timed.step().compiled();
  const auto& accelerator = timed.device().accelerator;
  nlohmann::ordered_json object{{"program", "Palimpsest"},
                                {"threads", timed.device().threads},
                                {"device", accelerator ? accelerator->description() : "cpu"},
                                {"recorded", recorded},
                                {"planned_bytes", compiled.plan.device().bytes},
                                {"product_gflop", 1e-9 * product_flops(timed.step().program())},
                                {"step_ms", 1e3 * seconds},
                                {"samples_per_s", double(timed.batch().samples) / seconds},
                                {"tokens_per_s", double(timed.batch().tokens) / seconds},
                                {"first_loss", timed.first_loss()},
                                {"last_loss", timed.last_loss()},
                                {"code", nodes_by_code(compiled.program, compiled.kernels)}};
  if (prediction) object["predicted_ms"] = prediction->step_ms;
  for (auto& [name, row] : table) {
    object["operators"].push_back({{"name", name},
                                   {"nodes", row.nodes},
                                   {"ms", row.ms},
                                   {"predicted_ms", row.predicted_ms},
                                   {"gflop", 1e-9 * row.flops},
                                   {"mb", 1e-6 * row.bytes}});
  }
  if (args.canary) object["recorded_peak_bytes"] = timed.touched();
  return object;
}

int run(int argc, char** argv) {
  Args args;
  if (const std::optional<int> status = parse(argc, argv, args)) return *status;
  const Config config = config_of(args);
  TimedStep timed(args, config);
  for (int i = 0; i < args.warmup; ++i) timed.run();
  const double seconds = timed.median_of(args.steps);
  const bool recorded = timed.step().runner().has_recording();
  std::optional<Prediction> prediction;
  if (!args.profile.empty()) prediction = predicted(timed, args);
  Table table;
  if (!args.json || args.operators) {
    table = by_operator(timed.step().program(), timed.node_times(args.steps), args.shapes,
                        prediction ? prediction->node_ms : ByNode<double>());
  }
  if (args.json) {
    std::printf("%s\n",
                object_of(timed, args, seconds, recorded, prediction, table).dump().c_str());
    return 0;
  }
  print(table, 1e3 * seconds, !args.profile.empty());
  const Compiled& compiled = timed.step().compiled();
  const std::string code = text_of_code(nodes_by_code(compiled.program, compiled.kernels));
  if (!code.empty()) std::printf("%s\n", code.c_str());
  std::printf("%.1f samples/s, %.0f tokens/s, %d threads\n",
              double(timed.batch().samples) / seconds, double(timed.batch().tokens) / seconds,
              timed.device().threads);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("step_bench", run, argc, argv); }
