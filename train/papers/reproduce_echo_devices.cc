// Echo (Zheng et al., ISCA 2020), figures 18 to 20: its English-German translator on one card
// beside several without Echo. Steps of several cards are recorded with their exchanges, and
// priced.
#include <cmath>
#include <optional>

#include "core/text.h"
#include "memory/price/baselines.h"
#include "train/config/links.h"
#include "train/config/wording.h"
#include "train/loop/max_fit.h"
#include "train/loop/step_program.h"
#include "train/papers/reproduce.h"
#include "train/report/device_facts.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

using Table = ReproducedTable;
using Bucket = std::pair<int64_t, int64_t>;
using Sets = std::vector<std::string>;

constexpr Bucket kLargest{100, 100};
// Where the corpus's sentences are in the mean: near 30 pieces of 32,000 kinds. The paper's samples
// a second are means over an epoch.
constexpr Bucket kMean{30, 30};

// "English-German": Hieber et al.'s best, four layers a side. The paper does not give its
// vocabularies; 32,000 pieces a side are usual.
Recipe german(int64_t batch, const Sets& sets, Bucket bucket) {
  Recipe recipe{
      "nmt_wmt_best",
      {"data.synthetic=true", "data.source_vocab_size=32000", "data.target_vocab_size=32000",
       "train.batch_words=null", "train.batch_size=" + std::to_string(batch)},
      bucket};
  recipe.sets.insert(recipe.sets.end(), sets.begin(), sets.end());
  return recipe;
}

const Sets kPlainSets{"memory.recompute=none"};
const Sets kMirrorSets{"memory.recompute=mirror", "memory.fuse_recompute=false"};
const Sets kEchoSets{"memory.recompute=echo"};

// A training of the paper's: its batch is that of all devices.
struct Training {
  const char* name;
  int64_t devices, batch;
  const Sets& sets;
};

// What it reaches. "Hidden": with a queue for exchanges, as MXNet has; without, exchanges run
// between the other nodes.
struct Reached {
  int64_t bytes = 0;  // of all devices
  double step_ms = 0, exposed_ms = 0, hidden_step_ms = 0, hidden_exposed_ms = 0;
  double samples_per_s = 0, hidden_samples_per_s = 0;
  double joules = 0, hidden_joules = 0;  // a sample, of all devices
};

Reached reach(const Training& t, Bucket bucket, const DeviceProfile& card, const Link& link) {
  const Recipe recipe = german(t.batch / t.devices, t.sets, bucket);
  const DeviceProfile device =
      joined(card, {.ranks = t.devices, .per_node = t.devices, .inside = link});
  const PlannedRecipe plain =
      plan_recipe(recipe, device, [](CompileOptions& o) { o.exchange_device.reset(); });
  const PlannedRecipe hidden = plan_recipe(recipe, device);
  const DeviceFacts facts = device_facts(hidden.step, device);
  Reached out{.bytes = t.devices * facts.bytes_per_rank,
              .step_ms = plain.step_ms,
              .exposed_ms = device_facts(plain.step, device).exposed_ms,
              .hidden_step_ms = hidden.step_ms,
              .hidden_exposed_ms = facts.exposed_ms};
  const auto batch = double(t.batch);
  out.samples_per_s = 1e3 * batch / out.step_ms;
  out.hidden_samples_per_s = 1e3 * batch / out.hidden_step_ms;
  const auto joules = [&](double step_ms, double exposed_ms) {
    return joules_of(device, t.devices, step_ms, exposed_ms).value_or(0) / batch;
  };
  out.joules = joules(out.step_ms, out.exposed_ms);
  out.hidden_joules = joules(out.hidden_step_ms, out.hidden_exposed_ms);
  return out;
}

const Training kBaseline1{"baseline", 1, 16, kPlainSets};
const Training kBaseline4{"baseline", 4, 64, kPlainSets};
const Training kMirror2{"mirror (Chen et al.)", 2, 64, kMirrorSets};
const Training kEcho64{"echo", 1, 64, kEchoSets};
const Training kEcho128{"echo", 1, 128, kEchoSets};

std::string fold(double ratio) { return fixed(ratio, 2) + "x"; }
// Of a ratio of ours to one of the paper's.
std::string away(double ours, double papers) { return percent(ours / papers - 1); }

std::vector<std::string> ratio_row(const std::string& what, double ours, double hidden,
                                   double papers) {
  return {what, fold(papers), fold(ours), away(ours, papers), fold(hidden), away(hidden, papers)};
}
const std::vector<std::string> kRatioColumns{
    "samples a second", "paper", "ours, nothing hidden", "off by", "exchanges hidden", "off"};

std::string on(const Training& t) {
  return std::string(t.name) + ", B=" + std::to_string(t.batch) + " on " +
         std::to_string(t.devices);
}

// The trainings in turn, each as it was reached.
Table speeds(const std::string& title, const std::vector<Training>& trainings,
             const std::vector<Reached>& reached) {
  Table table{.title = title,
              .columns = {"", "GB of all cards", "step, ms", "of it exposed", "samples/s",
                          "step with exchanges hidden, ms", "samples/s then"}};
  for (size_t i = 0; i < trainings.size(); ++i) {
    const Reached& r = reached[i];
    table.rows.push_back({on(trainings[i]), gigabytes(r.bytes), fixed(r.step_ms, 1),
                          fixed(r.exposed_ms, 1), fixed(r.samples_per_s, 0),
                          fixed(r.hidden_step_ms, 1), fixed(r.hidden_samples_per_s, 0)});
  }
  return table;
}

std::string lengths(Bucket bucket) { return std::to_string(bucket.first) + " words a side"; }

// What the figures say in ratios, at one bucket.
struct Beside {
  Reached one, four, echo;

  Beside(Bucket bucket, const DeviceProfile& card, const Link& link)
      : one(reach(kBaseline1, bucket, card, link)),
        four(reach(kBaseline4, bucket, card, link)),
        echo(reach(kEcho128, bucket, card, link)) {}

  void add(Table& table, Bucket bucket, double scaling, double echo_over_four) const {
    const std::string at = ", " + lengths(bucket);
    const auto row = [&](const std::string& what, const Reached& a, const Reached& b,
                         double papers) {
      table.rows.push_back(ratio_row(what + at, a.samples_per_s / b.samples_per_s,
                                     a.hidden_samples_per_s / b.hidden_samples_per_s, papers));
    };
    row(on(kBaseline4) + " over on 1", four, one, scaling);
    row(on(kEcho128) + " over baseline on 4", echo, four, echo_over_four);
    row(on(kEcho128) + " over baseline, B=16 on 1", echo, one, scaling * echo_over_four);
  }
};

Table footprints_by_batch(const DeviceProfile& device) {
  Table table{.title = "English-German NMT (4:4 layers of 1024): footprint, GB",
              .columns = {"", "B=16", "B=64", "B=128", "predicted samples/s, B=16"}};
  for (const char* method : {"none", "mirror", "echo"}) {
    std::vector<std::string> row{method};
    std::string speed;
    for (int batch : {16, 64, 128}) {
      const PlannedRecipe p =
          plan_recipe(german(batch, {std::string("memory.recompute=") + method}, kLargest), device);
      row.push_back(gigabytes(p.step.plan.device().bytes));
      if (batch == 16) speed = fixed(p.samples_per_s, 0);
    }
    row.push_back(speed);
    table.rows.push_back(row);
  }
  table.rows.push_back({"paper: baseline", "over 8", "4 GPUs", "", ""});
  table.rows.push_back({"paper: mirror", "", "2 GPUs", "", ""});
  table.rows.push_back({"paper: echo", "", "fits 11", "9.6", "-14 % of baseline"});
  table.notes = {
      "The largest batch that fits a card: pal plan --config nmt_wmt_best --max-batch "
      "--profile rtx2080ti."};
  return table;
}

// The largest batch whose step of the longest sentences takes at most a card, by bytes_of.
int64_t most(int64_t start, const DeviceProfile& card,
             const std::function<int64_t(int64_t)>& bytes_of) {
  return search_fitting({.start = start, .least = 1, .most = 10'000}, card.capacity, bytes_of)
      .value;
}

int64_t cudnn_bytes(int64_t batch) {
  const Recipe recipe = german(batch, kPlainSets, kLargest);
  std::vector<Override> overrides;
  for (const std::string& set : recipe.sets) overrides.push_back(parse_set(set));
  const Config config = load_config(find_config(recipe.config), overrides);
  return baselines_of(record_plan_step(*make_task(config), config, recipe.bucket)).cudnn;
}

int64_t planned_bytes(int64_t batch, const Sets& sets, const DeviceProfile& card) {
  return plan_recipe(german(batch, sets, kLargest), card).step.plan.device().bytes;
}

// Every card full: the batches that fit by a framework's bytes with cuDNN, and by ours.
Table full_cards(const DeviceProfile& card, const Link& link) {
  const int64_t framework = most(32, card, cudnn_bytes);
  const int64_t none =
      most(64, card, [&](int64_t b) { return planned_bytes(b, kPlainSets, card); });
  const int64_t echo =
      most(250, card, [&](int64_t b) { return planned_bytes(b, kEchoSets, card); });
  const std::vector<Training> trainings{{"a framework with cuDNN", 1, framework, kPlainSets},
                                        {"a framework with cuDNN", 4, 4 * framework, kPlainSets},
                                        {"ours, nothing recomputed", 1, none, kPlainSets},
                                        {"ours, nothing recomputed", 4, 4 * none, kPlainSets},
                                        {"echo", 1, echo, kEchoSets}};
  std::vector<Reached> reached;
  for (const Training& t : trainings) reached.push_back(reach(t, kMean, card, link));
  Table table = speeds("Every card full (sentences of 100 words fit " +
                           format_bytes(card.capacity) + "), " + lengths(kMean),
                       trainings, reached);
  table.columns.emplace_back("echo's over it");
  table.columns.emplace_back("exchanges hidden");
  for (size_t i = 0; i < reached.size(); ++i) {
    table.rows[i].push_back(fold(reached.back().samples_per_s / reached[i].samples_per_s));
    table.rows[i].push_back(
        fold(reached.back().hidden_samples_per_s / reached[i].hidden_samples_per_s));
  }
  table.notes = {
      "The framework's batch is the largest by baselines.cudnn; its time is that of our step "
      "without recomputation."};
  return table;
}

constexpr const char* kPcie = "pcie3";
constexpr const char* kNvlink = "nvlink2";

std::vector<Table> fig18(const DeviceProfile& card) {
  const Link link = load_link(kPcie);
  const std::vector<Training> trainings{kBaseline1, kBaseline4, kMirror2, kEcho64, kEcho128};
  std::vector<Reached> reached;
  for (const Training& t : trainings) reached.push_back(reach(t, kMean, card, link));
  Table ratios{.title = "Beside the paper's, over " + link.name, .columns = kRatioColumns};
  Beside(kMean, card, link).add(ratios, kMean, 2.14, 1.35);
  Beside(kLargest, card, link).add(ratios, kLargest, 2.14, 1.35);
  ratios.notes = {
      "The paper: echo on one card 1.35x of the baseline on four, which is 2.14x of one.",
      "Whether what echo repeats is folded into its readers makes no difference to this model.",
      "Exchanges hidden: on a queue of their own, as MXNet's are, for at most a tenth more bytes."};
  return {footprints_by_batch(card),
          speeds("Throughput over " + link.name + ", " + lengths(kMean), trainings, reached),
          ratios, full_cards(card, link)};
}

std::vector<Table> fig19(const DeviceProfile& card) {
  const Link link = load_link(kNvlink);
  Table ratios{.title = "Beside the paper's, over " + link.name, .columns = kRatioColumns};
  const Beside at_mean(kMean, card, link);
  at_mean.add(ratios, kMean, 3.40, 1.0);
  Beside(kLargest, card, link).add(ratios, kLargest, 3.40, 1.0);
  ratios.notes = {
      "The paper: the baseline on four is 3.40x of one, and echo on one is nearly as fast."};
  return {speeds("Throughput over " + link.name + ", " + lengths(kMean),
                 {kBaseline1, kBaseline4, kEcho128}, {at_mean.one, at_mean.four, at_mean.echo}),
          ratios};
}

std::vector<Table> fig20(const DeviceProfile& card) {
  const Link link = load_link(kPcie);
  const std::vector<Training> trainings{kBaseline4, kMirror2, kEcho128};
  Table table{.title = "Energy of all cards, " + lengths(kMean) + ", over " + link.name,
              .columns = {"", "J a sample", "W in the mean", "saved", "paper: saved",
                          "J, exchanges hidden", "saved then"}};
  std::optional<Reached> first;
  const std::vector<const char*> paper{"0 %", "", "65 %"};
  for (size_t i = 0; i < trainings.size(); ++i) {
    const Reached r = reach(trainings[i], kMean, card, link);
    if (!first) first = r;
    table.rows.push_back(
        {on(trainings[i]), fixed(r.joules, 3), fixed(r.joules * r.samples_per_s, 0),
         percent(1 - r.joules / first->joules), paper[i], fixed(r.hidden_joules, 3),
         percent(1 - r.hidden_joules / first->hidden_joules)});
  }
  table.notes = {"A card takes " + fixed(card.busy, 0) + " W while it computes and " +
                     fixed(card.idle, 0) + " W while it waits for an exchange (its profile).",
                 "The paper: after an epoch echo has used 65 % less than the baseline on four; "
                 "mirror on two is 31 % slower than echo and takes twice its energy or more.",
                 "Figure 20a is a training curve; it needs a GPU and is not reproduced."};
  return {table};
}

constexpr Reproduction kDevices[] = {
    {"echo-fig18", "Echo, Figure 18: English-German NMT, by batch size and on several cards",
     fig18},
    {"echo-fig19", "Echo, Figure 19: the same on four V100s with NVLink", fig19, nullptr, nullptr,
     "", "v100_16"},
    {"echo-fig20", "Echo, Figure 20: the cards' energy", fig20},
};

}  // namespace

std::span<const Reproduction> echo_device_reproductions() { return kDevices; }

}  // namespace pal
