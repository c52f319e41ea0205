// Zico (Lim et al. 2021) knows steps of one length; ours may be of several buckets: on one circle,
// or under tickets. Predicted.
#include <algorithm>

#include "core/spec.h"
#include "train/config/wording.h"
#include "train/papers/zico_steps.h"

namespace pal {
namespace {

using Table = ReproducedTable;

// Two jobs whose steps are of several buckets, in an order in which all pairs meet.
struct BucketJobs {
  std::vector<StepShape> steps[2];

  std::vector<SimulatedJob> simulated() const {
    std::vector<SimulatedJob> out(2);
    for (size_t j = 0; j < 2; ++j) {
      for (const StepShape& step : steps[j]) out[j].programs.push_back(&step);
    }
    return out;
  }
  double round_ms() const {
    double ms = 0;
    for (const auto& of_job : steps) {
      for (const StepShape& step : of_job) ms += step.ms();
    }
    return ms;
  }
  SimulatedRun run(PoolGate& gate, Preference first) const {
    return simulate(simulated(), gate, 8 * round_ms(), {.first = first});
  }
  // Under tickets in a pool of so many bytes, or of more where a step would not fit otherwise.
  std::unique_ptr<PoolGate> tickets(int64_t pool_bytes) const {
    std::vector<std::vector<PoolOffsets>> offset(2);
    for (size_t j = 0; j < 2; ++j) {
      for (const StepShape& step : steps[j]) {
        pool_bytes = std::max(pool_bytes, place_longest_first(step, offset[j].emplace_back()));
      }
    }
    const int64_t region = region_bytes_of(pool_bytes);
    std::vector<std::vector<RegionProgram>> programs(2);
    for (size_t j = 0; j < 2; ++j) {
      for (size_t p = 0; p < steps[j].size(); ++p) {
        const StepShape& step = steps[j][p];
        for (size_t i = 0; j == 1 && i < step.buffers.size(); ++i) {
          offset[j][p][i] = pool_bytes - offset[j][p][i] - step.buffers[i].bytes;
        }
        programs[j].push_back(region_program(step, offset[j][p], region));
      }
    }
    return ticket_gate(std::move(programs), int32_t(pool_bytes / region + 1));
  }
};

std::vector<Table> buckets(const DeviceProfile& device) {
  ZicoPlanner planner(device);
  Table table{
      .title = "Two jobs of several buckets each: rates relative to turns",
      .columns = {"models", "buckets", "budget, of one's", "all on one circle", "of them on it",
                  "circle: waited", "tickets", "tickets: waited", "each has all"}};
  struct Pair {
    const char *a, *b;
    int64_t batch_a, batch_b;
  };
  for (const Pair& pair : {Pair{"GNMT", "GNMT", 32, 32}, Pair{"GNMT", "GNMT", 16, 16}}) {
    BucketJobs jobs{{planner.bucket_steps(zico_network(pair.a), pair.batch_a, 4),
                     planner.bucket_steps(zico_network(pair.b), pair.batch_b, 3)}};
    const std::vector<const StepShape*> largest{jobs.steps[0].data(), jobs.steps[1].data()};
    CorunSearch search(largest);
    std::vector<std::vector<const StepShape*>> others(2);
    for (size_t j = 0; j < 2; ++j) {
      for (size_t i = 1; i < jobs.steps[j].size(); ++i) others[j].push_back(&jobs.steps[j][i]);
    }
    const auto open = open_gate();
    const double beside = jobs.run(*open, {}).total();
    for (const double part : {1.5, 1.7, 1.8, 1.9}) {
      const auto larger = std::max(largest[0]->alone_bytes, largest[1]->alone_bytes);
      const auto budget = int64_t(part * double(larger));
      auto way = search.side_by_side(budget);
      if (!way || way->kind != CorunWay::Kind::circle) continue;
      const int64_t pool = (budget - search.own_bytes()) / kAlignment * kAlignment;
      add_programs(*way, others, pool);
      size_t on = 0;
      for (const JobOnCircle& job : way->circle.jobs) on += job.programs();
      const auto circle = way->gate(largest), tickets = jobs.tickets(pool);
      const bool all = on == jobs.steps[0].size() + jobs.steps[1].size();
      const auto waited = [](const SimulatedRun& run) {
        return percent((run.waited_ms[0] + run.waited_ms[1]) / (2 * run.ms));
      };
      const SimulatedRun by_tickets = jobs.run(*tickets, way->first);
      const SimulatedRun on_circle = all ? jobs.run(*circle, way->first) : SimulatedRun{};
      table.rows.push_back(
          {std::string(pair.a) + " (" + std::to_string(pair.batch_a) + "), " + pair.b + " (" +
               std::to_string(pair.batch_b) + ")",
           std::to_string(jobs.steps[0].size()) + ", " + std::to_string(jobs.steps[1].size()),
           two_digits(part), all ? two_digits(on_circle.total()) : "-", std::to_string(on),
           all ? waited(on_circle) : "-", two_digits(by_tickets.total()), waited(by_tickets),
           two_digits(beside)});
    }
  }
  table.notes = {
      "A job runs its buckets in turn, the longest first; the circle was chosen for the longest of "
      "both. Without it, steps of other buckets are under tickets, and all wait for each other "
      "where the rule changes.",
      "Rates are predicted: the steps of all jobs relative to turns of a step each (1.00)."};
  return {table};
}

}  // namespace

std::span<const Reproduction> zico_bucket_reproductions() {
  static constexpr Reproduction kZico[] = {
      {.name = "zico-buckets", .what = "Ours: jobs of several buckets", .make = buckets},
  };
  return kZico;
}

}  // namespace pal
