// Zico (Lim et al. 2021): bytes over time, alone and together:
// figures 1 to 3, 6, 7, 9 and 10, predicted for the paper's cards.
#include <algorithm>
#include <cmath>

#include "train/config/wording.h"
#include "train/papers/zico_steps.h"

namespace pal {
namespace {

using Table = ReproducedTable;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}
double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / double(values.size());
}

// The first tick at which most bytes are alive: Zico's border between the passes.
int64_t peak_tick(const StepShape& shape) {
  int64_t most = 0, at = 0;
  for (int64_t m = 0; m < shape.moments(); ++m) {
    int64_t bytes = 0;
    for (const SharableBuffer& b : shape.buffers) bytes += b.life.contains(m) ? b.bytes : 0;
    if (bytes > most) most = bytes, at = shape.tick[size_t(m)];
  }
  return at;
}

// Figure 1.
std::vector<Table> lifetimes(const DeviceProfile& device) {
  ZicoPlanner planner(device);
  const ZicoStep& step = planner.part_of_batch(zico_network("NASNet"), 0.5);
  const StepShape& shape = step.shape;
  const int64_t peak = peak_tick(shape);
  std::vector<double> maps, others;
  double map_bytes = 0, other_bytes = 0;
  for (const SharableBuffer& b : shape.buffers) {
    const int64_t begin = shape.tick[size_t(b.life.begin)], end = shape.tick[size_t(b.life.end)];
    const bool is_map = begin <= peak && peak < end;
    (is_map ? maps : others).push_back(double(end - begin) * 1e-6);
    (is_map ? map_bytes : other_bytes) += double(b.bytes);
  }
  Table table{.title = "Figure 1: lifetimes of NASNet's storages, ms; batch " +
                       std::to_string(step.batch) + ", a step of " + fixed(shape.ms(), 0) + " ms",
              .columns = {"", "storages", "mean MB", "mean", "median", "9 of 10 below",
                          "paper: mean", "paper: median"}};
  const auto row = [&](const char* name, std::vector<double> ms, double bytes, const char* mean,
                       const char* median) {
    std::sort(ms.begin(), ms.end());
    table.rows.push_back({name, std::to_string(ms.size()),
                          two_digits(bytes * 1e-6 / double(std::max<size_t>(1, ms.size()))),
                          fixed(mean_of(ms), 1), fixed(median_of(ms), 1),
                          ms.empty() ? "" : fixed(ms[ms.size() * 9 / 10], 1), mean, median});
  };
  row("feature maps", maps, map_bytes, "134", "234");
  row("all else", others, other_bytes, "18", "2");
  table.notes = {"Feature maps as the paper tells them: alive when most bytes are.", kHalfOfLargest,
                 kPaperMeasured};
  return {table};
}

constexpr int kTenths = 10;

// Figure 2.
std::vector<Table> footprints(const DeviceProfile& device) {
  Table table{.title = "Figure 2: bytes alive over a step, of the most; tenths of its time",
              .columns = {"model", "batch", "step, ms", "most, GB"}};
  for (int i = 0; i <= kTenths; ++i) table.columns.push_back("at " + std::to_string(i));
  table.columns.push_back("time above half");
  for (const ZicoNetwork& network : zico_networks()) {
    ZicoPlanner planner(zico_card(network, device));
    const ZicoStep& step = planner.part_of_batch(network, 0.5);
    const StepShape& shape = step.shape;
    constexpr int kFine = 400;
    std::vector<double> fine;
    for (int i = 0; i < kFine; ++i) {
      fine.push_back(double(live_at(shape, double(i) / kFine) + shape.own_bytes));
    }
    const double most = *std::max_element(fine.begin(), fine.end());
    std::vector<std::string> row{network.name, std::to_string(step.batch), fixed(shape.ms(), 0),
                                 two_digits(most * 1e-9)};
    for (int i = 0; i <= kTenths; ++i) {
      const double part = std::min(double(i) / kTenths, 1 - 1e-9);
      row.push_back(two_digits(double(live_at(shape, part) + shape.own_bytes) / most));
    }
    row.push_back(percent(
        double(std::count_if(fine.begin(), fine.end(), [&](double b) { return b > most / 2; })) /
        kFine));
    table.rows.push_back(row);
  }
  table.notes = {"The paper draws curves: ResNet-50 is beefy (near its peak for long), GNMT lean.",
                 kHalfOfLargest, kPaperMeasured};
  return {table};
}

// Figure 3.
std::vector<Table> host_view(const DeviceProfile& device) {
  ZicoPlanner planner(device);
  const ZicoStep& step = planner.part_of_batch(zico_network("ResNet-50"), 0.5);
  const StepShape& shape = step.shape;
  const double burst = double(shape.nodes.size()) * device.launch * 1e3;
  Table table{.title = "Figure 3: ResNet-50's bytes, GB; batch " + std::to_string(step.batch) +
                       ", a step of " + fixed(shape.ms(), 0) + " ms",
              .columns = {"ms", "the device's view", "the host's view"}};
  // The host is at a moment when so many of its nodes have been issued.
  const auto host = [&](double ms) {
    if (ms >= burst) return int64_t(0);
    const auto node = shape.node[size_t(ms / burst * double(shape.nodes.size()))];
    int64_t bytes = 0;
    for (const SharableBuffer& b : shape.buffers) {
      bytes += b.life.contains(start_of(node)) ? b.bytes : 0;
    }
    return bytes;
  };
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) times.push_back(burst * i / 5);
  for (int i = 0; i < kTenths; ++i) {
    const double ms = shape.ms() * i / kTenths;
    if (ms > burst) times.push_back(ms);
  }
  for (const double ms : times) {
    table.rows.push_back({fixed(ms, 1), two_digits(double(live_at(shape, ms / shape.ms())) * 1e-9),
                          two_digits(double(host(ms)) * 1e-9)});
  }
  table.notes = {
      "A host that runs ahead has issued all " + std::to_string(shape.nodes.size()) +
          " kernels after " + fixed(burst, 1) + " ms, if one takes it " +
          fixed(device.launch * 1e6, 0) +
          " us: to it all bytes are free then, and the device needs "
          "them for " +
          fixed(shape.ms() - burst, 0) + " ms more.",
      "The paper draws the same: a burst, then a long pause. Our gates go by the device.",
      kHalfOfLargest, kPaperMeasured};
  return {table};
}

// Figure 6.
std::vector<Table> summed(const DeviceProfile& device) {
  Table table{.title = "Figure 6: footprints of two jobs, GB",
              .columns = {"model", "batch", "one", "two, each its own", "of the card", "planned",
                          "how", "zico"}};
  for (const ZicoNetwork& network : zico_networks()) {
    const DeviceProfile card = zico_card(network, device);
    ZicoPlanner planner(card);
    for (const double part : {0.25, 0.5, 0.75, 1.0}) {
      const ZicoStep& step = planner.part_of_batch(network, part);
      const ZicoJobs jobs{&step, &step};
      const double one = double(step.shape.alone_bytes);
      const SimulatedWay planned = planned_way(jobs, card.capacity, card);
      const auto zico = zico_way(jobs, card.capacity);
      table.rows.push_back(
          {network.name, std::to_string(step.batch), two_digits(one * 1e-9),
           two_digits(2 * one * 1e-9), percent(2 * one / double(card.capacity)),
           planned.most_bytes ? two_digits(double(planned.most_bytes) * 1e-9) : "-", planned.how,
           zico ? two_digits(double(zico->most_bytes) * 1e-9) : "-"});
    }
  }
  table.notes = {
      "Above 100 % of the card the paper's bars are red; planned and zico stay within it.",
      "planned, zico: the most bytes that are held at once. -: changes every minute, or "
      "does not fit.",
      kPaperMeasured};
  return {table};
}

// Bytes by job at points of the last whole steps of the first job.
Table timeline(const std::string& title, const ZicoJobs& jobs, const SimulatedRun& run) {
  Table table{.title = title, .columns = {"ms"}};
  for (size_t j = 0; j < jobs.size(); ++j) {
    table.columns.push_back("job " + std::to_string(j + 1) + ", GB");
  }
  table.columns.push_back("all, GB");
  const auto& steps = run.steps[0];
  if (steps.size() < 4) return table;
  const double from = steps[steps.size() - 4].begin_ms, to = steps[steps.size() - 2].begin_ms;
  constexpr int kRows = 16;
  for (int i = 0; i < kRows; ++i) {
    const double ms = from + (to - from) * i / kRows;
    std::vector<std::string> row{fixed(ms - from, 0)};
    int64_t sum = 0;
    for (const int64_t bytes : held_at(jobs, run, ms)) {
      row.push_back(two_digits(double(bytes) * 1e-9)), sum += bytes;
    }
    row.push_back(two_digits(double(sum) * 1e-9));
    table.rows.push_back(row);
  }
  return table;
}

// Figure 7.
std::vector<Table> timelines(const DeviceProfile& device) {
  std::vector<Table> tables;
  for (const char* name : {"ResNet-110", "BERT"}) {
    const ZicoNetwork& network = zico_network(name);
    const DeviceProfile card = zico_card(network, device);
    ZicoPlanner planner(card);
    const ZicoStep& step = planner.part_of_batch(network, 0.6);
    const ZicoJobs jobs{&step, &step};
    const std::string title = std::string("Figure 7: ") + name + " twice, batch " +
                              std::to_string(step.batch) + ", " + card.name + ", a step alone " +
                              fixed(step.shape.ms(), 0) + " ms; ";
    const SimulatedWay planned = planned_way(jobs, card.capacity, card);
    tables.push_back(timeline(title + "planned (" + planned.how + ")", jobs, planned.run));
    std::vector<double> shift;
    if (const auto zico = zico_way(jobs, card.capacity, &shift)) {
      tables.push_back(timeline(title + "zico", jobs, zico->run));
      tables.back().notes = {
          "A step is delayed by " + fixed(shift[0], 1) + " and " + fixed(shift[1], 1) + " ms.",
          "The paper: almost no delay for ResNet-110, a slight one for BERT."};
    }
    tables.back().notes.push_back(
        "Two steps of the first job. Within a step bytes are drawn as alone, stretched. Batch: 0.6 "
        "of the largest, so that two do not fit apart.");
    tables.back().notes.push_back(kPaperMeasured);
  }
  return tables;
}

// Figure 9.
std::vector<Table> unequal_ratios(const DeviceProfile& device) {
  ZicoPlanner planner(device);
  Table table{.title = "Figure 9: steps of ResNet-110 for one of NASNet",
              .columns = {"parts of the card", "step of ResNet-110, ms", "of NASNet, ms", "planned",
                          "how", "zico", "turns"}};
  const auto ratio = [](const SimulatedWay& way, double a, double b) {
    return two_digits(way.run.rate[0] / way.run.rate[1] * b / a);
  };
  for (const auto& [first, second] :
       {std::pair(0.3, 0.9), std::pair(0.5, 0.7), std::pair(0.7, 0.5)}) {
    const ZicoStep& a = planner.part_of_card(zico_network("ResNet-110"), first);
    const ZicoStep& b = planner.part_of_card(zico_network("NASNet"), second);
    const ZicoJobs jobs{&a, &b};
    const double one = a.shape.ms(), other = b.shape.ms();
    const SimulatedWay planned = planned_way(jobs, device.capacity, device);
    const auto zico = zico_way(jobs, device.capacity);
    table.rows.push_back({fixed(100 * first, 0) + " %, " + fixed(100 * second, 0) + " %",
                          fixed(one, 0), fixed(other, 0), ratio(planned, one, other), planned.how,
                          zico ? ratio(*zico, one, other) : "-", "1.00"});
  }
  table.notes = {"The paper draws it: ResNet-110, whose steps are shorter, runs more of them.",
                 kPaperMeasured};
  return {table};
}

// Figure 10.
std::vector<Table> budget_changes(const DeviceProfile& device) {
  ZicoPlanner planner(device);
  const ZicoStep& step = planner.part_of_card(zico_network("NASNet"), 0.4);
  const ZicoJobs jobs{&step, &step};
  const auto part = [&](double p) { return int64_t(p * double(device.capacity)); };
  const double third = 60 * step.shape.ms();
  double clock = 0;
  const ZicoJob job = zico_job(step.shape);
  const auto gate =
      zico_gate({job, job}, {{0, part(0.7)}, {third, part(0.5)}, {2 * third, part(0.7)}}, &clock);
  const SimulatedRun run = simulate({{.programs = {&step.shape}}, {.programs = {&step.shape}}},
                                    *gate, 3 * third, {.clock = &clock});
  Table table{.title = "Figure 10: two NASNets while the budget changes; batch " +
                       std::to_string(step.batch) + ", a step alone " + fixed(step.shape.ms(), 0) +
                       " ms",
              .columns = {"budget, of the card", "zico: between two steps, ms", "zico: ms a step",
                          "planned: ms a step", "planned: how", "paper: between two steps, ms"}};
  const char* const kPaper[] = {"0", "140", "0"};
  const double kBudgets[] = {0.7, 0.5, 0.7};
  for (int i = 0; i < 3; ++i) {
    std::vector<double> gaps, lasts;
    for (const auto& steps : run.steps) {
      for (size_t s = 1; s < steps.size(); ++s) {
        // The second half of each third: the scheduler has learned by then.
        const double begin = steps[s].begin_ms;
        if (begin < third * (i + 0.5) || begin >= third * (i + 1)) continue;
        gaps.push_back(begin - steps[s - 1].end_ms), lasts.push_back(begin - steps[s - 1].begin_ms);
      }
    }
    const SimulatedWay planned = planned_way(jobs, part(kBudgets[i]), device);
    table.rows.push_back(
        {fixed(100 * kBudgets[i], 0) + " %", fixed(mean_of(gaps), 1), fixed(mean_of(lasts), 1),
         fixed(step.shape.ms() / ((planned.run.rate[0] + planned.run.rate[1]) / 2), 1), planned.how,
         kPaper[i]});
  }
  table.notes = {std::string("One job alone takes 40 % of the card (the paper does not say). The "
                             "paper's scheduler ") +
                     (gate->gave_up() ? "gave up." : "did not give up."),
                 kPaperMeasured};
  return {table};
}

}  // namespace

std::span<const Reproduction> zico_reproductions() {
  static constexpr Reproduction kZico[] = {
      {.name = "zico-fig1", .what = "Zico, Figure 1: NASNet's lifetimes", .make = lifetimes},
      {.name = "zico-fig2", .what = "Zico, Figure 2: bytes over a step", .make = footprints},
      {.name = "zico-fig3",
       .what = "Zico, Figure 3: the host's view of ResNet-50's bytes",
       .make = host_view,
       .profile = "v100_32"},
      {.name = "zico-fig6", .what = "Zico, Figure 6: footprints of two jobs", .make = summed},
      {.name = "zico-fig7", .what = "Zico, Figure 7: two jobs over time", .make = timelines},
      {.name = "zico-fig9",
       .what = "Zico, Figure 9: ResNet-110 and NASNet, unequal ratios",
       .make = unequal_ratios},
      {.name = "zico-fig10",
       .what = "Zico, Figure 10: a budget that changes",
       .make = budget_changes},
  };
  return kZico;
}

}  // namespace pal
