// Gist's figures that need networks to be trained: how well they learn with rounded maps (12), and
// how sparse SSDC finds their maps on the way (14). Both train small networks on the images that
// come with the program, on this machine.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rewriter.h"
#include "memory/passes/encode.h"
#include "memory/recompute/recompute.h"
#include "memory/storages/lifetimes.h"
#include "ops/encodings/ssdc.h"
#include "train/config/wording.h"
#include "train/papers/gist_trained.h"
#include "train/papers/reproduce_gist.h"
#include "train/papers/rounded_at_once.h"

namespace pal {
namespace {

using Table = ReproducedTable;

// A network in the place of the paper's, and how it is trained.
struct Stand {
  const char* name;
  const char* config;
  std::vector<std::string> sets;
};
const std::vector<std::string> kPlain = {"data.image_size=32", "data.crop=pad", "data.crop_pad=2",
                                         "train.weight_decay=5.0e-4", "device.threads=1"};
std::vector<std::string> joined(std::vector<std::string> sets,
                                const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// The configuration with its learning rate's schedule ending where the steps do.
Config config_of(const Stand& stand, const MeasureSettings& settings, int64_t steps) {
  std::vector<std::string> sets = settings.config.empty() ? stand.sets : std::vector<std::string>();
  if (settings.config.empty()) {
    sets.push_back("train.schedule_steps=" + std::to_string(steps));
    sets.push_back("train.warmup_steps=" + std::to_string(std::min<int64_t>(36, steps / 4)));
  }
  sets.insert(sets.end(), settings.sets.begin(), settings.sets.end());
  if (settings.batch) sets.push_back("train.batch_size=" + std::to_string(*settings.batch));
  std::vector<Override> overrides;
  for (const std::string& set : sets) overrides.push_back(parse_set(set));
  return load_config(find_config(settings.config.empty() ? stand.config : settings.config),
                     overrides);
}

std::string name_for(const Stand& stand, const MeasureSettings& settings) {
  return settings.config.empty() ? stand.name : settings.config;
}

// How the maps are kept. At once: every reader sees the rounded values.
struct Rounding {
  const char* name;
  std::optional<Dpr> format;
  bool at_once = false, all = false;  // all: gradients and weights too
  bool recompute = false;             // echo first
};
const Rounding kRoundings[] = {{"f32", {}},
                               {"All-FP16", Dpr::fp16, true, true},
                               {"FP16", Dpr::fp16},
                               {"FP10", Dpr::fp10},
                               {"FP8", Dpr::fp8},
                               {"FP8 maps at once", Dpr::fp8, true},
                               {"echo, FP8", Dpr::fp8, false, false, true}};

Program rounded(const Program& recorded, const Rounding& rounding) {
  if (!rounding.format) return recorded;
  if (rounding.at_once) return rounded_at_once(recorded, *rounding.format, rounding.all);
  const Program kept =
      rounding.recompute
          ? recompute(recorded, Recompute::echo, [](const Program& p) { return peak_bytes(p); })
          : recorded;
  return encode(kept, choose_forms(kept, {.binarize = true, .dpr = rounding.format}));
}

// Top-1 at the ends of epochs and after the last step.
std::vector<TopOne> trained(const Config& config, const Rounding& rounding, int64_t steps) {
  TrainingRun run(config, [&](const Program& p) { return in_form(p, rounding.name); });
  std::vector<TopOne> out;
  while (run.steps() < steps) {
    run.step();
    if (rounding.all) round_weights(run.programs(), *rounding.format);
    const bool end = run.steps() == steps;
    if (run.epoch_ended() || end) out.push_back({run.steps(), run.top1("test")});
  }
  return out;
}

std::vector<Table> accuracy(const DeviceProfile&, const MeasureSettings& settings) {
  const Stand stands[] = {
      {"resnet_small", "resnet_small", {"device.threads=1"}},
      {"vgg16, a quarter as wide", "zoo_small",
       joined(kPlain, {"model.network=vgg16", "model.width=0.25", "train.lr=0.02"})}};
  std::vector<Table> tables;
  for (const Stand& stand : stands) {
    const int64_t steps = settings.steps.value_or(360);
    tables.push_back(accuracy_by_epoch(name_for(stand, settings), config_of(stand, settings, steps),
                                       steps, settings.seeds.value_or(1)));
    if (!settings.config.empty()) break;
  }
  tables.back().notes.emplace_back(
      "All-FP16: feature maps, gradient maps, gradients of weights and weights are rounded where "
      "they are made; the optimizer's state is not. FP16, FP10, FP8: every eligible map is rounded "
      "after its last forward use, whether or not the plan would gain by it, bits answer for "
      "ReLU. echo: it recomputes first, and what is then stashed is rounded.");
  tables.back().notes.emplace_back(
      "Paper (ImageNet, 90 epochs, curves without numbers): All-FP16 loses accuracy severely; the "
      "smallest formats without loss are FP8 for AlexNet and Overfeat, FP10 for Inception (FP8 "
      "stops training), FP16 for VGG16.");
  return tables;
}

std::vector<Table> sparsity(const DeviceProfile&, const MeasureSettings& settings) {
  const Stand stand{"vgg16, a quarter as wide", "zoo_small",
                    joined(kPlain, {"model.network=vgg16", "model.width=0.25", "train.lr=0.02"})};
  const int64_t steps = settings.steps.value_or(720);
  return sparsity_by_step(name_for(stand, settings), config_of(stand, settings, steps), steps);
}

// Steps at which a table of so many has a column: about `columns` of them, from `first` on.
std::vector<int64_t> sampled(int64_t first, int64_t last, int64_t columns) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < columns && first <= last; ++i) {
    const int64_t step = first + (last - first) * i / std::max<int64_t>(1, columns - 1);
    if (out.empty() || out.back() != step) out.push_back(step);
  }
  return out;
}

std::string compressed(int64_t dense, int64_t encoded) {
  return fixed(double(dense) / double(encoded), 2) + "x";
}

// A row a map; compression by csr at the steps.
Table compression(const std::string& title, const std::vector<TargetMap>& maps,
                  const std::vector<int64_t>& steps,
                  const std::map<int64_t, std::vector<int64_t>>& nonzeros) {
  Table table{.title = title, .columns = {"map", "elements"}};
  for (int64_t s : steps) table.columns.push_back("step " + std::to_string(s));
  table.columns.emplace_back("zeros, last");
  std::vector<int64_t> dense(steps.size()), encoded(steps.size());
  for (size_t m = 0; m < maps.size(); ++m) {
    std::vector<std::string> row{maps[m].name, thousands(maps[m].elements)};
    for (size_t i = 0; i < steps.size(); ++i) {
      const int64_t bytes = csr_bytes(maps[m], nonzeros.at(steps[i])[m]);
      row.push_back(compressed(maps[m].bytes, bytes));
      dense[i] += maps[m].bytes, encoded[i] += bytes;
    }
    const double kept = double(nonzeros.at(steps.back())[m]) / double(maps[m].elements);
    row.push_back(percent(1 - kept));
    table.rows.push_back(row);
  }
  std::vector<std::string> all{"all", ""};
  for (size_t i = 0; i < steps.size(); ++i) all.push_back(compressed(dense[i], encoded[i]));
  all.emplace_back("");
  table.rows.push_back(all);
  return table;
}

}  // namespace

Table accuracy_by_epoch(const std::string& name, const Config& given, int64_t steps,
                        int64_t seeds) {
  Table table{.columns = {"after step"}};
  std::vector<TopOne> at;                       // of the first form: where
  std::vector<std::vector<double>> means;       // by form, by place
  std::vector<std::pair<double, double>> ends;  // by form: the lowest and the highest seed's
  for (const Rounding& rounding : kRoundings) {
    std::vector<double>& mean = means.emplace_back();
    ends.emplace_back(100, 0);
    for (int64_t seed = 0; seed < seeds; ++seed) {
      Config config = given;
      config.train.seed = *given.train.seed + seed;
      const std::vector<TopOne> run = trained(config, rounding, steps);
      mean.resize(run.size());
      for (size_t i = 0; i < run.size(); ++i) mean[i] += run[i].percent / double(seeds);
      at = run;
      ends.back().first = std::min(ends.back().first, run.back().percent);
      ends.back().second = std::max(ends.back().second, run.back().percent);
    }
    table.columns.emplace_back(rounding.name);
  }
  table.title = "Top-1 on the test images, percent: " + name + ", " + std::to_string(steps) +
                " steps of batch " + std::to_string(*given.train.batch_size) +
                ", measured; mean of " + std::to_string(seeds) + (seeds == 1 ? " seed" : " seeds");
  for (size_t i = 0; i < at.size(); ++i) {
    std::vector<std::string> row{std::to_string(at[i].step)};
    for (const auto& mean : means) row.push_back(fixed(mean[i], 1));
    table.rows.push_back(row);
  }
  std::vector<std::string> row{"at the end, against f32"};
  for (const auto& mean : means) row.push_back(printed("%+.1f", mean.back() - means[0].back()));
  table.rows.push_back(row);
  if (seeds == 1) return table;
  row = {"lowest and highest seed"};
  for (const auto& [low, high] : ends) row.push_back(fixed(low, 1) + ", " + fixed(high, 1));
  table.rows.push_back(row);
  return table;
}

Program in_form(const Program& recorded, const std::string& form) {
  for (const Rounding& rounding : kRoundings) {
    if (form == rounding.name) return rounded(recorded, rounding);
  }
  throw ProgramError("[reproduce] there is no form " + form);
}

Program with_counts(const Program& p, std::vector<TargetMap>* maps) {
  Rewriter out(p);
  ByValue<char> counted(p.values.size(), 0);
  for (const GistStash& stash : stashes_of(p, gist_footprint(p))) {
    counted[stash.value] = is_for_ssdc(stash.pair);
  }
  std::vector<NamedValue> outputs;
  for (NodeId n : p.nodes.ids()) {
    out.keep(n);
    for (ValueId v : present(p.node(n).out)) {
      if (!counted[v]) continue;
      const Node& node = p.node(n);
      Value count = p.value(v);
      count.spec = {{1}, DType::i32}, count.role = Role::statistic;
      const ValueId nonzeros = out.add(count);
      out.insert({.op = &count_nonzeros_op,
                  .in = {v},
                  .out = {nonzeros},
                  .scope = node.scope,
                  .step = node.step});
      outputs.push_back({"nonzeros/" + std::to_string(outputs.size()), nonzeros});
      const TensorSpec& spec = p.value(v).spec;
      maps->push_back({node_name(p, n), outputs.back().name, spec.numel(), spec.bytes()});
    }
  }
  Program made = out.finish();
  made.outputs.insert(made.outputs.end(), outputs.begin(), outputs.end());
  return made;
}

int64_t csr_bytes(const TargetMap& map, int64_t nonzeros) {
  return ssdc_bytes({SsdcForm::csr, nonzeros}, map.elements, DType::f32);
}

std::vector<Table> sparsity_by_step(const std::string& name, const Config& config, int64_t steps) {
  constexpr int64_t kFirst = 200;  // steps that the paper sees apart
  std::vector<TargetMap> maps;
  TrainingRun run(config, [&](const Program& p) { return with_counts(p, &maps); });
  if (maps.empty()) throw UsageError("reproduce: the network has no map for SSDC");
  const std::vector<int64_t> early = sampled(1, std::min(steps, kFirst), 6),
                             late = sampled(kFirst + 1, steps, 6);
  std::map<int64_t, std::vector<int64_t>> nonzeros;  // by step, by map
  while (run.steps() < steps) {
    run.step();
    const int64_t s = run.steps();
    if (!std::count(early.begin(), early.end(), s) && !std::count(late.begin(), late.end(), s)) {
      continue;
    }
    for (const TargetMap& map : maps) {
      nonzeros[s].push_back(*run.program().output<int32_t>(map.output));
    }
  }
  const std::string what = ": bytes of f32 over those of csr, by measured nonzeros, " + name;
  std::vector<Table> tables = {compression(
      "The first " + std::to_string(early.back()) + " steps" + what, maps, early, nonzeros)};
  if (!late.empty()) {
    tables.push_back(
        compression("After them, to step " + std::to_string(steps) + what, maps, late, nonzeros));
  }
  tables.back().notes = {
      printed("Measured: the nonzeros of each map between ReLU or pooling and a convolution, batch "
              "%lld, of the step itself; top-1 on the test images at the end: %.1f %%. Bytes are "
              "those of ssdc_encode's layout with room for just so many.",
              static_cast<long long>(*config.train.batch_size), run.top1("test")),
      "Paper: VGG16, ImageNet, 15 epochs of 20,000 steps: much above 1x for every map, but for "
      "about the first 200 steps; over 80 % zeros in all ReLU results. No numbers by map."};
  return tables;
}

std::span<const Reproduction> gist_trained_reproductions() {
  static constexpr Reproduction kTrained[] = {
      {.name = "gist-fig12",
       .what = "Gist, Figure 12: accuracy of training with rounded maps",
       .measure = accuracy,
       .takes = "batch steps seeds config set"},
      {.name = "gist-fig14",
       .what = "Gist, Figure 14: what SSDC saves along a training",
       .measure = sparsity,
       .takes = "batch steps config set"},
  };
  return kTrained;
}

}  // namespace pal
