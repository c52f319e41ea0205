// Patterns, periods and shifts; the best that fits.
#include "memory/share/corun_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "memory/share/grouped_gate.h"
#include "memory/share/local_areas.h"
#include "memory/share/pace.h"

namespace pal {
namespace {

constexpr int kMostSteps = 8;    // of all jobs on a circle
constexpr size_t kPatterns = 4;  // that are tried, those with the shortest idle times
constexpr int kShifts = 48;
// How far a circle is stretched, from all at once to one after the other.
constexpr std::array kStretches = {0.0, 0.08, 0.16, 0.3, 0.45, 0.6, 0.8};
constexpr int kHeights = 8;        // of a pool for tickets
constexpr double kRounds = 12;     // that are simulated
constexpr int kBins = 256;         // of a step
constexpr double kNoGain = 0.005;  // of the rates
constexpr int kPacedShifts = 32;
constexpr size_t kPaced = 4;        // of them, the fastest
constexpr double kPacedRounds = 6;  // that are simulated to know which

// Most bytes that a step's sharable storages hold in each part of its time.
std::vector<int64_t> curve_of(const StepShape& shape) {
  std::vector<int64_t> change(size_t(shape.moments()) + 2, 0);
  for (const SharableBuffer& b : shape.buffers) {
    change[size_t(b.life.begin)] += b.bytes, change[size_t(b.life.end)] -= b.bytes;
  }
  std::vector<int64_t> bins(kBins, 0);
  int64_t alive = 0;
  for (int64_t m = 0; m < shape.moments(); ++m) {
    alive += change[size_t(m)];
    const auto bin = [&](int64_t tick) {
      return std::min<int64_t>(tick * kBins / shape.ticks(), kBins - 1);
    };
    for (int64_t b = bin(shape.tick[size_t(m)]); b <= bin(shape.tick[size_t(m) + 1]); ++b) {
      bins[size_t(b)] = std::max(bins[size_t(b)], alive);
    }
  }
  return bins;
}

// The circle's curve of one job whose first step begins at 0.
constexpr int kParts = 4 * kBins;

std::vector<int64_t> parts_of(const std::vector<int64_t>& curve, const JobOnCircle& job,
                              int64_t period) {
  std::vector<int64_t> parts(kParts, 0);
  for (int i = 0; i < job.steps; ++i) {
    for (int b = 0; b < kBins; ++b) {
      const double from = double(i) * double(job.lasts) + double(job.lasts) * b / kBins;
      const double to = from + double(job.lasts) / kBins;
      const int first = int(from / double(period) * kParts);
      const int last = std::min(int(to / double(period) * kParts), kParts - 1);
      for (int p = first; p <= last; ++p) {
        parts[size_t(p)] = std::max(parts[size_t(p)], curve[size_t(b)]);
      }
    }
  }
  return parts;
}

// All ways to give each job 1 to kMostSteps steps, at most so many in all, with no common divisor.
std::vector<std::vector<int>> patterns(size_t jobs) {
  std::vector<std::vector<int>> out;
  std::vector<int> steps(jobs, 1);
  const int most = std::max(kMostSteps, int(jobs));
  while (true) {
    const int sum = std::accumulate(steps.begin(), steps.end(), 0);
    const int divisor = std::accumulate(steps.begin(), steps.end(), 0, std::gcd<int, int>);
    if (sum <= most && divisor == 1) out.push_back(steps);
    size_t j = 0;
    while (j < jobs && ++steps[j] > most - int(jobs) + 1) steps[j++] = 1;
    if (j == jobs) return out;
  }
}

}  // namespace

const char* to_string(CorunWay::Kind kind) {
  switch (kind) {
    case CorunWay::Kind::beside: return "beside";
    case CorunWay::Kind::circle: return "circle";
    case CorunWay::Kind::tickets: return "tickets";
    case CorunWay::Kind::turns: return "turns";
    case CorunWay::Kind::zico: return "zico";
    case CorunWay::Kind::groups: return "groups";
  }
  return "";
}

std::vector<double> rates_in_turns(const std::vector<const StepShape*>& shapes) {
  double round = 0;
  for (const StepShape* shape : shapes) round += shape->ms_alone();
  std::vector<double> rates;
  for (const StepShape* shape : shapes) rates.push_back(shape->ms_alone() / round);
  return rates;
}

bool starves(const CorunWay& way, const std::vector<double>& in_turns) {
  constexpr double kLeast = 0.5;
  for (size_t j = 0; way.first.any() && j < way.rate.size(); ++j) {
    if (way.rate[j] < kLeast * in_turns[j]) return true;
  }
  return false;
}

std::vector<double> simulate_way(CorunWay& way, const std::vector<const StepShape*>& shapes) {
  std::vector<SimulatedJob> jobs;
  double round_ms = 0;
  for (const StepShape* shape : shapes) {
    jobs.push_back({.programs = {shape}}), round_ms += shape->ms();
  }
  const auto gate = way.gate(shapes);
  const SimulatedRun run = simulate(jobs, *gate, kRounds * round_ms, {.first = way.first});
  way.rate = run.rate;
  for (size_t j = 0; j < way.rate.size(); ++j) {
    way.rate[j] *= shapes[j]->ms_alone() / shapes[j]->ms();
  }
  way.total = std::accumulate(way.rate.begin(), way.rate.end(), 0.0);
  return run.rate;
}

std::unique_ptr<PoolGate> CorunWay::gate(const std::vector<const StepShape*>& shapes) const {
  switch (kind) {
    case Kind::beside: return open_gate();
    case Kind::circle:
      return program_waits.empty() ? circle_gate(circle, waits)
                                   : programs_gate(circle, program_waits);
    case Kind::turns: return turn_gate();
    case Kind::zico: throw ProgramError("[share] Zico's gate goes by a clock");
    case Kind::groups: {
      std::vector<std::unique_ptr<PoolGate>> gates;
      for (size_t g = 0; g < groups.size(); ++g) {
        std::vector<const StepShape*> of_group;
        for (const JobId j : members[g]) of_group.push_back(shapes[size_t(j)]);
        gates.push_back(groups[g].gate(of_group));
      }
      return grouped_gate(std::move(gates), members);
    }
    case Kind::tickets: break;
  }
  const int64_t region = region_bytes_of(pool_bytes);
  std::vector<std::vector<RegionProgram>> programs;
  for (size_t j = 0; j < shapes.size(); ++j) {
    programs.push_back({region_program(*shapes[j], placement.offset[j], region)});
  }
  return ticket_gate(std::move(programs), int32_t((pool_bytes + region - 1) / region));
}

CorunSearch::CorunSearch(std::vector<const StepShape*> shapes, const CorunSearchOptions& options)
    : shapes_(std::move(shapes)), grain_(options.grain), can_prefer_(options.can_prefer) {
  std::vector<int64_t> heights;
  for (const StepShape* shape : shapes_) {
    own_bytes_ += shape->own_bytes;
    heights.push_back(shape->alone_bytes - shape->own_bytes);
    round_ms_ += shape->ms();
  }
  turns_ = {.kind = CorunWay::Kind::turns,
            .pool_bytes = *std::max_element(heights.begin(), heights.end()),
            .rate = rates_in_turns(shapes_),
            .total = 1};
  // With nobody first; of the jobs that could go first, with the one that makes most of it; with
  // light nodes first, where they make something of it.
  std::vector<Beside> ways{beside_with({})};
  const double of_nobody = ways[0].way.total;
  std::vector<Preference> preferences;
  if (can_prefer_ && shapes_.size() > 1) {
    for (size_t j = 0; j < shapes_.size(); ++j) preferences.push_back({.job = JobId(j)});
    preferences.push_back({.light = true});
  }
  for (const Preference first : preferences) {
    Beside with = beside_with(first);
    const Beside& best = ways.back();
    const double least = first.light ? of_nobody : best.way.total;
    if (with.way.total <= least || starves(with.way, turns_.rate)) continue;
    if (!first.light) ways.resize(1);
    ways.push_back(std::move(with));
  }
  const auto by_total = [](const Beside& a, const Beside& b) { return a.way.total < b.way.total; };
  beside_ = std::max_element(ways.begin(), ways.end(), by_total)->way;
  for (const Beside& way : ways) besides_.push_back(way.way);
  if (shapes_.size() < 2) return;
  for (const Beside& way : ways) add_tickets(way.way.first), add_circles(way);
}

CorunSearch::Beside CorunSearch::beside_with(Preference first) const {
  Beside out{.way = {.kind = CorunWay::Kind::beside, .first = first}, .speed = {}};
  for (size_t j = 0; j < shapes_.size(); ++j) out.way.pool_bytes += part_of(j);
  out.speed = simulate_way(out.way, shapes_);
  return out;
}

void CorunSearch::add_tickets(Preference first) {
  for (int i = 0; i < kHeights; ++i) {
    const int64_t height =
        turns_.pool_bytes + (beside_.pool_bytes - turns_.pool_bytes) * i / kHeights;
    CorunWay& way =
        tickets_.emplace_back(CorunWay{.kind = CorunWay::Kind::tickets, .first = first});
    way.placement = place_apart(shapes_, height);
    way.pool_bytes = way.placement.height;
    simulate_way(way, shapes_);
  }
}

// Patterns in which no job waits long for the others to have made as many steps.
void CorunSearch::add_circles(const Beside& beside) {
  std::vector<std::pair<double, std::vector<int>>> by_idle;
  for (const std::vector<int>& steps : patterns(shapes_.size())) {
    double period = 0, alone = 0;
    for (size_t j = 0; j < steps.size(); ++j) {
      alone += steps[j] * shapes_[j]->ms();
      period = std::max(period, steps[j] * shapes_[j]->ms() / beside.speed[j]);
    }
    by_idle.emplace_back(-alone / period, steps);
  }
  std::stable_sort(by_idle.begin(), by_idle.end());
  by_idle.resize(std::min(by_idle.size(), kPatterns));
  for (const auto& [idle, steps] : by_idle) add_tries(beside, steps);
  if (shapes_.size() != 2 || beside.way.first.any()) return;
  add_paced(beside, by_idle[0].second, {});
  if (can_prefer_) add_paced(beside, by_idle[0].second, {.light = true});
}

// Of all shifts those at which two jobs that keep them are fastest, if they are faster than
// without.
void CorunSearch::add_paced(const Beside& beside, const std::vector<int>& steps, Preference first) {
  std::vector<std::pair<double, Try>> by_total;
  for (int shift = 0; shift < kPacedShifts; ++shift) {
    Try t{.circle = {}, .first = first, .paced = true};
    for (size_t j = 0; j < steps.size(); ++j) {
      const auto alone = double(shapes_[j]->ticks());
      const auto lasts = int64_t(alone / std::clamp(beside.speed[j], 1e-3, 1.0));
      t.circle.jobs.push_back({shapes_[j], steps[j], 0, lasts});
      t.circle.period = std::max(t.circle.period, steps[j] * lasts + 1);
    }
    t.circle.jobs[1].begins = t.circle.period * shift / kPacedShifts;
    const double total = paced_total(t.circle, t.first);
    if (total > beside.way.total) by_total.emplace_back(total, std::move(t));
  }
  std::stable_sort(by_total.begin(), by_total.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  by_total.resize(std::min(by_total.size(), kPaced));
  for (auto& [total, t] : by_total) {
    t.at_least = most_alive(t.circle);
    t.paced_total = total;
    tries_.push_back(std::move(t));
  }
}

double CorunSearch::paced_total(const Circle& circle, Preference first) const {
  CircleWaits none;
  for (const JobOnCircle& job : circle.jobs) none.emplace_back(size_t(job.steps));
  const auto gate = circle_gate(circle, paced(circle, std::move(none)));
  std::vector<SimulatedJob> jobs;
  double total = 0;
  for (const StepShape* shape : shapes_) jobs.push_back({.programs = {shape}});
  const SimulatedRun run = simulate(jobs, *gate, kPacedRounds * round_ms_, {.first = first});
  for (size_t j = 0; j < shapes_.size(); ++j) {
    total += run.rate[j] * shapes_[j]->ms_alone() / shapes_[j]->ms();
  }
  return total;
}

// For each period the shift at which the fewest bytes are alive at once.
void CorunSearch::add_tries(const Beside& beside, const std::vector<int>& steps) {
  double together = 0, apart = 0;  // ticks of a period
  std::vector<double> lasts;
  for (size_t j = 0; j < steps.size(); ++j) {
    const auto alone = double(shapes_[j]->ticks());
    lasts.push_back(std::max(alone, alone / std::max(beside.speed[j], 1e-3)));
    together = std::max(together, steps[j] * lasts[j]);
    apart += steps[j] * alone;
  }
  for (const double stretch : kStretches) {
    Try t;
    t.first = beside.way.first;
    t.circle.period = int64_t(std::ceil(together + std::max(0.0, apart - together) * stretch)) + 1;
    std::vector<int64_t> alive(kParts, 0);
    for (size_t j = 0; j < steps.size(); ++j) {
      // The less the steps overlap, the less they slow each other down.
      const auto alone = double(shapes_[j]->ticks());
      const double part = alone + (lasts[j] - alone) * (1 - stretch);
      JobOnCircle job{shapes_[j], steps[j], 0, int64_t(part)};
      const std::vector<int64_t> parts = parts_of(curve_of(*shapes_[j]), job, t.circle.period);
      int best = 0;
      int64_t least = INT64_MAX;
      for (int shift = 0; shift < (j == 0 ? 1 : kShifts); ++shift) {
        int64_t most = 0;
        for (int p = 0; p < kParts; ++p) {
          const int at = (p + shift * kParts / kShifts) % kParts;
          most = std::max(most, alive[size_t(at)] + parts[size_t(p)]);
        }
        if (most < least) least = most, best = shift;
      }
      for (int p = 0; p < kParts; ++p) {
        alive[size_t((p + best * kParts / kShifts) % kParts)] += parts[size_t(p)];
      }
      job.begins = int64_t(double(t.circle.period) * best / kShifts);
      t.circle.jobs.push_back(job);
    }
    t.at_least = most_alive(t.circle);
    tries_.push_back(std::move(t));
  }
}

PoolPlacement CorunSearch::placed_apart() const {
  int64_t height = 0;
  for (const StepShape* shape : shapes_) {
    PoolOffsets alone;
    height += align_up(place_longest_first(*shape, alone));
  }
  return place_apart(shapes_, height);
}

CorunWay CorunSearch::placed(const Try& t, Placing placing) const {
  CorunWay way{.kind = CorunWay::Kind::circle, .first = t.first};
  way.circle = t.circle;
  way.has_local = placing == Placing::local;
  way.placement = placing == Placing::joint   ? place_on(way.circle)
                  : placing == Placing::local ? place_with_local(way.circle)
                                              : placed_apart();
  check_placement(way.circle, way.placement);
  way.pool_bytes = way.placement.height;
  way.waits = waits_of(way.circle, way.placement, grain_);
  way.paced = t.paced;
  if (t.paced) way.waits = paced(way.circle, std::move(way.waits));
  check_waits(way.circle, way.waits);
  simulate_way(way, shapes_);
  return way;
}

const CorunWay& CorunSearch::place(Try& t) {
  if (t.way) return *t.way;
  t.way = placed(t, Placing::joint);
  const double no_waits = t.paced ? t.paced_total : beside_.total;
  if (t.way->total < (1 - kNoGain) * no_waits) {
    t.roomier = placed(t, t.paced ? Placing::apart : Placing::local);
  }
  return *t.way;
}

// The best of `best`, which may be null, and of all ways side by side.
const CorunWay* CorunSearch::best(int64_t budget, CorunGoal goal, const CorunWay* best) {
  const int64_t pool = budget - own_bytes_;
  const auto consider = [&](const CorunWay& way) {
    if (way.pool_bytes > pool || (best && way.total <= best->total) || starves(way, turns_.rate))
      return;
    for (size_t j = 0; goal == CorunGoal::fair && j < way.rate.size(); ++j) {
      if (way.rate[j] < turns_.rate[j]) return;
    }
    best = &way;
  };
  for (const CorunWay& way : besides_) consider(way);
  for (const CorunWay& way : tickets_) consider(way);
  for (Try& t : tries_) {
    if (t.at_least > pool) continue;
    consider(place(t));
    if (t.roomier) consider(*t.roomier);
  }
  return best;
}

std::optional<CorunWay> CorunSearch::within(int64_t budget, CorunGoal goal) {
  if (turns_.pool_bytes > budget - own_bytes_) return {};
  return *best(budget, goal, &turns_);
}

std::optional<CorunWay> CorunSearch::side_by_side(int64_t budget, CorunGoal goal) {
  const CorunWay* found = best(budget, goal, nullptr);
  return found ? std::optional(*found) : std::nullopt;
}

}  // namespace pal
