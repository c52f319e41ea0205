// Zico (Lim et al. 2021): what sharing gains over turns, predicted for the paper's cards: figures 5
// and 8, section 3.1's UVM, and comparisons of ours.
#include <algorithm>
#include <map>

#include "memory/share/pairs_plan.h"
#include "train/config/wording.h"
#include "train/papers/zico_steps.h"

namespace pal {
namespace {

using Table = ReproducedTable;

constexpr double kBatchParts[] = {0.25, 0.5, 0.75, 1};

const char* const kRelativeToTurns =
    "Rates are predicted: the steps of all jobs relative to turns of a step each (1.00), given the "
    "card's memory. The paper measured.";
const char* const kTheWays =
    "zico: the paper's scheduler, simulated on our steps; unshared: each job has its own memory, "
    "and "
    "pages of 2 MiB move where that is more than the card's; bound: no schedule can do better, "
    "given "
    "all memory. -: does not fit beside what is the other's own.";
const char* const kPartsOfLargest =
    "Batches are parts of the largest that fits the card alone; the paper's text does not give its "
    "own.";
const char* const kNoGaps =
    "The paper does not say how long its framework leaves the device idle between kernels, nor how "
    "much of the device a job uses alone, so that no column can have its gaps.";

std::string percent_of(int64_t bytes, int64_t all) {
  return fixed(100 * double(bytes) / double(all), 0) + " %";
}
std::string total_of(const std::optional<SimulatedWay>& way) {
  if (!way) return "-";
  return two_digits(way->total()) + (way->how == "gave up" ? " (gave up)" : "");
}

// What all ways make of jobs on a card.
struct Compared {
  SimulatedWay planned, unshared;
  std::optional<SimulatedWay> zico;
  double bound = 0;

  Compared(const ZicoJobs& jobs, const DeviceProfile& card)
      : planned(planned_way(jobs, card.capacity, card)),
        unshared(unshared_way(jobs, card.capacity, card)),
        zico(zico_way(jobs, card.capacity)),
        bound(demand_bound(shapes_of(jobs)).total) {}
};

// What `gain` of the bound's gain is: "93 %"; of nothing to gain, nothing.
std::string of_bound(double total, double bound) { return percent(total / bound); }

// Figure 5.
std::vector<Table> same_models(const DeviceProfile& device) {
  Table table{.title = "Figure 5: the same model twice, rates relative to turns",
              .columns = {"model", "batch", "one, of the card", "planned", "how", "of the bound",
                          "zico", "unshared", "bound", "planned over unshared", "paper: Zico"}};
  const std::map<std::string, const char*> paper{{"NASNet", "1.35"}, {"GNMT", "1.37"}};
  for (const ZicoNetwork& network : zico_networks()) {
    const DeviceProfile card = zico_card(network, device);
    ZicoPlanner planner(card);
    double planned = 0, zico = 0, bound = 0;
    int zicos = 0;
    for (const double part : kBatchParts) {
      const ZicoStep& step = planner.part_of_batch(network, part);
      const Compared c({&step, &step}, card);
      table.rows.push_back({network.name, std::to_string(step.batch),
                            percent_of(step.shape.alone_bytes, card.capacity),
                            two_digits(c.planned.total()), c.planned.how,
                            of_bound(c.planned.total(), c.bound), total_of(c.zico),
                            two_digits(c.unshared.total()), two_digits(c.bound),
                            two_digits(c.planned.total() / c.unshared.total()), ""});
      planned += c.planned.total(), bound += c.bound;
      if (c.zico) zico += c.zico->total(), ++zicos;
    }
    const double n = double(std::size(kBatchParts));
    const auto found = paper.find(network.name);
    table.rows.push_back({std::string(network.name) + ", mean", "", "", two_digits(planned / n), "",
                          of_bound(planned, bound), zicos ? two_digits(zico / zicos) : "-", "",
                          two_digits(bound / n), "", found == paper.end() ? "" : found->second});
  }
  table.notes = {"ResNet-50 and BERT: V100 32 GB; the others: " + device.name + ".",
                 kRelativeToTurns, kTheWays, kPartsOfLargest,
                 ("The paper's Zico is up to 4.7 times as fast as MPS; percentages of the other "
                  "models are not in its text.")};

  Table gaps{.title = "With all the memory that both need, by what lies between two kernels, us",
             .columns = {"model", "batch", "paper: Zico"}};
  constexpr double kLaunches[] = {3, 10, 20, 40};
  for (const double us : kLaunches) {
    gaps.columns.push_back("beside, " + fixed(us, 0));
    gaps.columns.push_back("bound, " + fixed(us, 0));
  }
  for (const char* name : {"NASNet", "GNMT"}) {
    const ZicoNetwork& network = zico_network(name);
    const int64_t batch = ZicoPlanner(device).largest_batch(network) / 2;
    std::vector<std::string> row{name, std::to_string(batch), paper.at(name)};
    for (const double us : kLaunches) {
      DeviceProfile slower = device;
      slower.launch = us * 1e-6;
      ZicoPlanner planner(slower);
      const ZicoStep& step = planner.step(network, batch);
      CorunSearch search({&step.shape, &step.shape});
      row.push_back(two_digits(search.beside().total));
      row.push_back(two_digits(demand_bound({&step.shape, &step.shape}).total));
    }
    gaps.rows.push_back(row);
  }
  gaps.notes = {kNoGaps,
                "Our recorded steps leave 3 us; the other columns say what gaps would give.",
                "All predicted for an " + device.name + " but the paper's."};
  return {table, gaps};
}

struct PairOfModels {
  const char *a, *b;
  double first, second;  // parts of the card
};

// Figure 8.
std::vector<Table> distinct_models(const DeviceProfile& device) {
  struct Group {
    const char *a, *b, *paper;
  };
  constexpr Group kGroups[] = {{"RHN", "GNMT", "1.42, 5.1 x MPS"},
                               {"NASNet", "GNMT", "1.46, 8.3 x MPS"},
                               {"BERT", "GNMT", "1.27, 6 x MPS"},
                               {"NASNet", "ResNet-110", "1.15, 6.5 x MPS"}};
  constexpr std::pair<double, double> kShares[] = {{0.3, 0.9}, {0.5, 0.7}, {0.7, 0.5}, {0.9, 0.3}};
  ZicoPlanner planner(device);
  Table table{.title = "Figure 8: two models, rates relative to turns; parts of the card alone",
              .columns = {"models", "alone use", "planned", "how", "of the bound", "zico",
                          "unshared", "bound", "planned over unshared", "paper: Zico"}};
  const auto use = [](const ZicoStep& s) { return fixed(100 * use_of(s.shape).most(), 0) + " %"; };
  for (const Group& group : kGroups) {
    double planned = 0, zico = 0, unshared = 0, bound = 0;
    int zicos = 0;
    for (const auto& [first, second] : kShares) {
      const ZicoStep& a = planner.part_of_card(zico_network(group.a), first);
      const ZicoStep& b = planner.part_of_card(zico_network(group.b), second);
      const Compared c({&a, &b}, device);
      table.rows.push_back({std::string(group.a) + " (" + fixed(100 * first, 0) + " %), " +
                                group.b + " (" + fixed(100 * second, 0) + " %)",
                            use(a) + ", " + use(b), two_digits(c.planned.total()), c.planned.how,
                            of_bound(c.planned.total(), c.bound), total_of(c.zico),
                            two_digits(c.unshared.total()), two_digits(c.bound),
                            two_digits(c.planned.total() / c.unshared.total()), ""});
      planned += c.planned.total(), unshared += c.unshared.total(), bound += c.bound;
      if (c.zico) zico += c.zico->total(), ++zicos;
    }
    const double n = double(std::size(kShares));
    table.rows.push_back({std::string(group.a) + ", " + group.b + ": mean", "",
                          two_digits(planned / n), "", of_bound(planned, bound),
                          zicos ? two_digits(zico / zicos) : "-", two_digits(unshared / n),
                          two_digits(bound / n), two_digits(planned / unshared), group.paper});
  }
  table.notes = {
      kRelativeToTurns, kTheWays,
      ("alone use: the most that each uses of the device's multiprocessors, flop/s or "
       "memory bandwidth, on average over its step."),
      "The paper's text has the means; of its parts only NASNet (30 %) with GNMT (90 %).", kNoGaps};
  return {table};
}

// Section 3.1: ResNet-50 twice, each with 70 % of the memory.
std::vector<Table> overflow(const DeviceProfile& device) {
  ZicoPlanner planner(device);
  const ZicoNetwork& network = zico_network("ResNet-50");
  const ZicoStep& step = planner.part_of_card(network, 0.7);
  DeviceProfile half = device;
  half.units /= 2, half.f32 /= 2, half.tf32 /= 2, half.f16 /= 2, half.bf16 /= 2, half.vector /= 2;
  ZicoPlanner halved(half);
  const double alone = halved.step(network, step.batch).shape.ms();
  Table table{.title = "Section 3.1: ResNet-50 twice, 70 % of the memory each, batch " +
                       std::to_string(step.batch),
              .columns = {"", "ms a step", "to half of the device", "paper"}};
  table.rows.push_back({"alone on half of the device", fixed(alone, 0), "1.00", "1"});
  const auto row = [&](const char* name, const SimulatedWay& way, const char* paper) {
    const double ms = step.shape.ms() / std::min(way.run.rate[0], way.run.rate[1]);
    table.rows.push_back({name, fixed(ms, 0), two_digits(ms / alone), paper});
  };
  const ZicoJobs jobs{&step, &step};
  row("unshared, with pages over the link", unshared_way(jobs, device.capacity, device), "8");
  row("planned", planned_way(jobs, device.capacity, device), "");
  if (const auto zico = zico_way(jobs, device.capacity)) row("zico", *zico, "");
  table.notes = {
      "Half of the device: half of its multiprocessors and rates, all of its memory's bandwidth.",
      "A page is copied in when a node needs it, and another out before it, over one link; faults "
      "cost nothing more.",
      "Ours are predicted for a " + device.name + "; the paper measured on one."};
  return {table};
}

std::vector<Table> schedulers(const DeviceProfile& device) {
  Table table{.title = "Two of each, 3/4 of the largest batch, by budget: rates relative to turns",
              .columns = {"model", "budget, of the card", "planned", "how", "zico",
                          "zico: a step is delayed by, ms", "step alone, ms"}};
  for (const ZicoNetwork& network : zico_networks()) {
    const DeviceProfile card = zico_card(network, device);
    ZicoPlanner planner(card);
    const ZicoStep& step = planner.part_of_batch(network, 0.75);
    for (const double part : {1.0, 0.9, 0.8}) {
      const auto budget = int64_t(part * double(card.capacity));
      const ZicoJobs jobs{&step, &step};
      const SimulatedWay planned = planned_way(jobs, budget, card);
      std::vector<double> shift;
      const auto zico = zico_way(jobs, budget, &shift);
      table.rows.push_back({network.name, fixed(100 * part, 0) + " %", two_digits(planned.total()),
                            planned.how, total_of(zico),
                            zico ? fixed((shift[0] + shift[1]) / 2, 1) : "-",
                            fixed(step.shape.ms(), 0)});
    }
  }
  table.notes = {kRelativeToTurns, kTheWays,
                 "zico (gave up): a job met no free region, and steps go in turns from there on."};
  return {table};
}

// Target: neither job below turns.
std::vector<Table> fairness(const DeviceProfile& device) {
  ZicoPlanner planner(device);
  Table table{.title = "Each job's rate: steps relative to its own steps in turns",
              .columns = {"models", "goal", "how", "first", "second", "all"}};
  constexpr PairOfModels kPairs[] = {
      {"NASNet", "GNMT", 0.3, 0.9}, {"NASNet", "RHN", 0.6, 0.6}, {"RHN", "GNMT", 0.6, 0.6}};
  for (const PairOfModels& pair : kPairs) {
    const ZicoStep& a = planner.part_of_card(zico_network(pair.a), pair.first);
    const ZicoStep& b = planner.part_of_card(zico_network(pair.b), pair.second);
    const ZicoJobs jobs{&a, &b};
    const std::vector<double> turns = rates_in_turns(shapes_of(jobs));
    const std::string name = std::string(pair.a) + " (" + fixed(100 * pair.first, 0) + " %), " +
                             pair.b + " (" + fixed(100 * pair.second, 0) + " %)";
    const auto row = [&](const char* goal, const SimulatedWay& way) {
      table.rows.push_back({name, goal, way.how, two_digits(way.run.rate[0] / turns[0]),
                            two_digits(way.run.rate[1] / turns[1]), two_digits(way.total())});
    };
    row("total", planned_way(jobs, device.capacity, device, CorunGoal::total));
    row("fair", planned_way(jobs, device.capacity, device, CorunGoal::fair));
    if (const auto zico = zico_way(jobs, device.capacity)) row("zico", *zico);
  }
  table.notes = {
      "The paper: with NASNet (30 %) and GNMT (90 %), NASNet does slightly worse than in "
      "turns.",
      kRelativeToTurns};
  return {table};
}

// "NASNet with GNMT, RHN"
std::string who_is_with_whom(const CorunWay& way, const ZicoJobs& jobs) {
  std::string out;
  for (const std::vector<JobId>& group : way.members) {
    for (size_t i = 0; i < group.size(); ++i) {
      out += (i > 0 ? " with " : out.empty() ? "" : ", ") + jobs[size_t(group[i])]->shape.name;
    }
  }
  return out;
}

// "circle in 40 %, turns in 60 %"
std::string how_each(const CorunWay& way) {
  std::string out;
  for (const CorunWay& group : way.groups) {
    out += (out.empty() ? "" : ", ") + std::string(to_string(group.kind)) + " in " +
           percent(double(group.pool_bytes) / double(way.pool_bytes));
  }
  return out;
}

std::vector<Table> four_jobs(const DeviceProfile& device) {
  ZicoPlanner planner(device);
  struct Four {
    std::vector<const char*> names;
    double part;  // of the card, each alone
  };
  const Four kFours[] = {{{"NASNet", "NASNet", "GNMT", "GNMT"}, 0.3},
                         {{"NASNet", "NASNet", "GNMT", "GNMT"}, 0.5},
                         {{"RHN", "RHN", "ResNet-110", "NASNet"}, 0.4},
                         {{"RHN", "RHN", "RHN", "RHN"}, 0.4},
                         {{"NASNet", "NASNet", "NASNet", "NASNet"}, 0.4}};
  Table table{.title = "Four jobs on one card: rates relative to turns",
              .columns = {"jobs", "each alone, of the card", "as pairs", "which", "how",
                          "one joint plan", "joint: how", "better", "bound"}};
  for (const Four& four : kFours) {
    ZicoJobs jobs;
    std::string name;
    for (const char* n : four.names) {
      jobs.push_back(&planner.part_of_card(zico_network(n), four.part));
      name += (name.empty() ? "" : ", ") + std::string(n);
    }
    const auto pairs = PairsSearch(shapes_of(jobs)).within(device.capacity);
    const auto joint = CorunSearch(shapes_of(jobs)).within(device.capacity);
    const auto total = [](const std::optional<CorunWay>& way) {
      return way ? two_digits(way->total) : std::string("-");
    };
    table.rows.push_back({name, fixed(100 * four.part, 0) + " %", total(pairs),
                          pairs ? who_is_with_whom(*pairs, jobs) : "",
                          pairs ? how_each(*pairs) : "", total(joint),
                          joint ? to_string(joint->kind) : "",
                          !joint || (pairs && pairs->total > joint->total) ? "pairs" : "joint",
                          two_digits(demand_bound(shapes_of(jobs)).total)});
  }
  table.notes = {
      "As pairs (the paper's proposal): every way to pair them, each pair with a part of the "
      "card's "
      "memory, of six sizes; all four run side by side. -: not even turns fit.",
      kRelativeToTurns, "The paper has no figures for four."};
  return {table};
}

}  // namespace

std::span<const Reproduction> zico_rate_reproductions() {
  static constexpr Reproduction kZico[] = {
      {.name = "zico-fig5", .what = "Zico, Figure 5: the same model twice", .make = same_models},
      {.name = "zico-fig8", .what = "Zico, Figure 8: two models", .make = distinct_models},
      {.name = "zico-uvm",
       .what = "Zico, section 3.1: more than there is, with unified memory",
       .make = overflow,
       .profile = "v100_32"},
      {.name = "zico-scheduler",
       .what = "Ours: the planned schedule against Zico's",
       .make = schedulers},
      {.name = "zico-fair", .what = "Ours: no job slower than in turns", .make = fairness},
      {.name = "zico-four", .what = "Ours: four jobs, as pairs and jointly", .make = four_jobs},
  };
  return kZico;
}

}  // namespace pal
