// Echo (Zheng, Vijaykumar, Pekhimenko, ISCA 2020): table I and figures 4, 15 to 17, on its
// English-Vietnamese translator.
#include "memory/plan/report.h"
#include "train/config/wording.h"
#include "train/papers/reproduce.h"

namespace pal {
namespace {

using Table = ReproducedTable;

// "English-Vietnamese" of the paper: B=128, the largest bucket.
Recipe vietnamese(std::vector<std::string> sets) {
  sets.insert(sets.begin(), {"data.synthetic=true", "data.source_vocab_size=17188",
                             "data.target_vocab_size=7706"});
  return {"nmt_iwslt", sets, {100, 100}};
}

std::string recompute(const std::string& method) { return "memory.recompute=" + method; }

constexpr double kAnyOverhead = 1e9, kNothingIsHeavy = 1e9;

// The paper's layer types, from our scopes.
const LayerTypes kTypes = {{"attention", "attention"},
                           {"output", "vocabulary loss"},
                           {"rnn", "RNN"},
                           {"init", "RNN"},
                           {"embed", "embedding"}};

Table nmt_breakdown(const std::string& title, const std::vector<std::string>& names,
                    const std::vector<PlannedRecipe>& plans) {
  return breakdown(title, names, plans, kTypes, "rest",
                   {"attention", "RNN", "vocabulary loss", "embedding", "weights", "rest"});
}

std::vector<Table> fig4(const DeviceProfile& device) {
  const std::vector<PlannedRecipe> plan{plan_recipe(vietnamese({recompute("none")}), device)};
  Table layers = nmt_breakdown("By layer type, at the peak", {"ours"}, plan);
  const Footprint f = footprint_of(plan[0].step.program, plan[0].step.storages, plan[0].step.plan);
  Table structures{.title = "By data structure, at the peak",
                   .columns = {"data structure", "ours, GB"}};
  auto add = [&](const char* name, std::initializer_list<Role> roles) {
    int64_t bytes = 0;
    for (Role role : roles) bytes += f.of(role);
    structures.rows.push_back({name, gigabytes(bytes)});
  };
  add("feature maps", {Role::feature_map, Role::statistic, Role::encoded});
  add("gradient maps", {Role::gradient_map});
  add("weights, gradients, optimizer",
      {Role::weight, Role::weight_gradient, Role::optimizer_state});
  add("workspace", {Role::workspace});
  add("inputs", {Role::input});
  structures.notes = {
      "The paper draws the figure without numbers; of 10.0 GB, feature maps of "
      "attention and RNN are most."};
  return {layers, structures};
}

std::vector<Table> table1(const DeviceProfile& device) {
  const PlannedRecipe none = plan_recipe(vietnamese({recompute("none")}), device);
  const PlannedRecipe mirror =
      plan_recipe(vietnamese({recompute("mirror"), "memory.fuse_recompute=false"}), device);
  auto change = [](double from, double to) { return fixed(100 * (to / from - 1), 0) + " %"; };
  Table table{
      .title = "NMT with and without recomputation after Chen et al., B=128",
      .columns = {"", "paper: baseline", "Chen et al.", "change", "ours: none", "mirror", "change"},
      .rows = {{"samples/s", "1192", "983", "-18 %", fixed(none.samples_per_s, 0),
                fixed(mirror.samples_per_s, 0), change(none.samples_per_s, mirror.samples_per_s)},
               {"footprint, GB", "10.0", "7.4", "-26 %", fixed(none.gb(), 2), fixed(mirror.gb(), 2),
                change(none.gb(), mirror.gb())}},
      .notes = {"Sentences of the largest bucket, 100 words a side; the paper's samples are "
                "shorter in the mean, so its samples/s stand for less work each."}};
  return {table};
}

std::vector<Table> fig15(const DeviceProfile& device) {
  const PlannedRecipe none = plan_recipe(vietnamese({recompute("none")}), device);
  Table table{.title = "English-Vietnamese NMT: memory and throughput",
              .columns = {"", "paper, GB", "paper, ratio", "ours, GB", "ratio", "framework's ratio",
                          "with cuDNN", "ours, samples/s predicted", "overhead"}};
  auto row = [&](const char* name, const char* paper_gb, const char* paper_ratio,
                 const PlannedRecipe& p) {
    const double bytes = double(p.step.plan.device().bytes);
    table.rows.push_back(
        {name, paper_gb, paper_ratio, fixed(p.gb(), 2), fixed(none.gb() / p.gb(), 2),
         fixed(double(p.step.baselines.framework) / bytes, 2),
         fixed(double(p.step.baselines.cudnn) / bytes, 2), fixed(p.samples_per_s, 0),
         fixed(100 * (none.samples_per_s / p.samples_per_s - 1), 1) + " %"});
  };
  const std::string unfolded = "memory.fuse_recompute=false", folded = "memory.fuse_recompute=true";
  row("baseline, B=128", "10.0", "1.00", none);
  row("mirror (Chen et al.), B=128", "7.4", "1.35",
      plan_recipe(vietnamese({recompute("mirror"), unfolded}), device));
  row("echo, B=128", "3.2", "3.13", plan_recipe(vietnamese({recompute("echo"), unfolded}), device));
  row("echo, folded into its readers, B=128", "3.3", "3.0",
      plan_recipe(vietnamese({recompute("echo"), folded}), device));
  row("echo, fused model, B=128", "", "",
      plan_recipe(vietnamese({recompute("echo"), folded, "model.fused=true"}), device));
  row("echo, loss in 8 chunks, B=128", "", "",
      plan_recipe(vietnamese({recompute("echo"), folded, "model.loss_chunks=8"}), device));
  row("echo, folded, B=256", "", "",
      plan_recipe(vietnamese({recompute("echo"), folded, "train.batch_size=256"}), device));
  table.notes = {
      "The paper measured on an RTX 2080 Ti: echo +1 % time, mirror +18 %, B=256 1.27x the "
      "throughput; its hand-fused echo (the fourth row's counterpart) +33 % throughput.",
      "The ratio is to our own baseline; the framework's ratio is to what frameworks of the time "
      "would have needed for the same step, without and with cuDNN (docs/recomputation.md).",
      "Figure 15c is a training curve; it needs a GPU and is not reproduced yet."};
  return {table};
}

std::vector<Table> fig16(const DeviceProfile& device) {
  std::vector<PlannedRecipe> plans;
  for (const char* method : {"none", "mirror", "echo"}) {
    plans.push_back(
        plan_recipe(vietnamese({recompute(method), "memory.fuse_recompute=false"}), device));
  }
  Table table = nmt_breakdown("By layer type, at each plan's own peak, B=128, nothing folded",
                              {"baseline", "mirror", "echo"}, plans);
  auto both = [&](size_t i) {
    auto bytes = by_layer(plans[i], kTypes, "rest");
    return double(bytes["attention"] + bytes["RNN"]);
  };
  table.notes = {"Attention and RNN together: " + fixed(100 * (1 - both(2) / both(0)), 1) +
                 " % below baseline (paper: 81.4 %), " + fixed(100 * (1 - both(2) / both(1)), 1) +
                 " % below mirror (paper: 68.6 %)."};
  return {table};
}

std::vector<Table> fig17(const DeviceProfile& device) {
  const std::vector<std::string> unfolded{recompute("echo"), "memory.fuse_recompute=false"};
  const PlannedRecipe none = plan_recipe(vietnamese({recompute("none")}), device);
  const PlannedRecipe echo = plan_recipe(vietnamese(unfolded), device);
  Table table{.title = "What each layer type is worth, B=128",
              .columns = {"recomputed", "ours, GB", "of echo's reduction", "overhead, predicted",
                          "paper: of its reduction", "overhead, measured"}};
  auto row = [&](const char* name, const PlannedRecipe& p, const char* part, const char* overhead) {
    table.rows.push_back({name, fixed(p.gb(), 2),
                          fixed(100 * (none.gb() - p.gb()) / (none.gb() - echo.gb()), 1) + " %",
                          fixed(100 * (p.step_ms / none.step_ms - 1), 1) + " %", part, overhead});
  };
  row("nothing", none, "", "");
  row("RNN",
      plan_recipe(vietnamese(unfolded), device,
                  [](CompileOptions& o) { o.recompute_options.scopes = {"rnn"}; }),
      "21.1 %", "");
  row("attention",
      plan_recipe(vietnamese(unfolded), device,
                  [](CompileOptions& o) { o.recompute_options.scopes = {"attention"}; }),
      "70.2 %", "");
  row("echo", echo, "100 %", "1 %");
  row("echo, whatever it costs",
      plan_recipe(vietnamese(unfolded), device,
                  [](CompileOptions& o) { o.recompute_options.overhead = kAnyOverhead; }),
      "", "");
  row("and fully-connected layers",
      plan_recipe(vietnamese(unfolded), device,
                  [](CompileOptions& o) {
                    o.recompute_options.overhead = kAnyOverhead;
                    o.recompute_options.heavy = kNothingIsHeavy;
                  }),
      "101.8 %", "20.2 %");
  table.notes = {"Without folding into readers (memory.fuse_recompute: false), as in the paper."};
  return {table};
}

constexpr Reproduction kEcho[] = {
    {"echo-table1", "Echo, Table I: NMT with and without Chen et al.'s recomputation", table1},
    {"echo-fig4", "Echo, Figure 4: where an NMT step's memory goes", fig4},
    {"echo-fig15", "Echo, Figure 15: memory and throughput, English-Vietnamese NMT", fig15},
    {"echo-fig16", "Echo, Figure 16: footprint by layer type, baseline, mirror, echo", fig16},
    {"echo-fig17", "Echo, Figure 17: what recomputing each layer type is worth", fig17},
};

}  // namespace

std::span<const Reproduction> echo_reproductions() { return kEcho; }

}  // namespace pal
