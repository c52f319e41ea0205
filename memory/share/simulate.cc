// From one end of a launch, a node or a wait to the next.
#include "memory/share/simulate.h"

#include <algorithm>
#include <numeric>

namespace pal {
namespace {

class Simulation {
 public:
  Simulation(const std::vector<SimulatedJob>& jobs, PoolGate& gate, const SimulateOptions& options)
      : gate_(gate), options_(options) {
    if (options_.clock) *options_.clock = 0;
    for (const SimulatedJob& job : jobs) jobs_.push_back({.job = &job});
    out_.rate.resize(jobs.size()), out_.waited_ms.resize(jobs.size());
    out_.steps.resize(jobs.size());
  }

  SimulatedRun run(double ms) {
    std::vector<double> early(jobs_.size(), 0);
    const double warm = ms / 4;
    bool is_warm = false;
    while (now_ < ms) {
      start_all();
      if (std::none_of(jobs_.begin(), jobs_.end(), runs)) {
        out_.stuck = true;
        break;
      }
      set_speeds();
      double next = is_warm ? ms - now_ : warm - now_;
      for (const Job& j : jobs_) {
        if (runs(j)) next = std::min(next, j.left / j.speed);
      }
      advance(std::max(next, 0.0));
      if (!is_warm && now_ >= warm) {
        is_warm = true;
        for (size_t j = 0; j < jobs_.size(); ++j) early[j] = done_ms(jobs_[j]);
      }
    }
    out_.ms = now_;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      if (now_ > warm) out_.rate[j] = (done_ms(jobs_[j]) - early[j]) / (now_ - warm);
    }
    return std::move(out_);
  }

 private:
  enum class Phase : uint8_t { between, waits, idle, launch, fetch, work };
  struct Job {
    const SimulatedJob* job = nullptr;
    Phase phase = Phase::between;
    size_t program = 0, node = 0;  // of its programs; of the program
    size_t ask = 0, report = 0;    // the next ones of this step
    double left = 0, speed = 1;
    double steps_ms = 0, node_ms = 0;  // alone: of the steps, and of the nodes of this one, done
    double begun_ms = 0;

    const StepShape& shape() const { return *job->programs[program]; }
    const NodeDemand& demand() const { return shape().nodes[node]; }
  };

  static bool runs(const Job& j) { return j.phase > Phase::waits; }
  double done_ms(const Job& j) const { return j.steps_ms + j.node_ms; }

  // Whoever has nothing under way goes on, if the gate lets it; until nobody does.
  void start_all() {
    for (bool any = true; any;) {
      any = false;
      for (size_t j = 0; j < jobs_.size(); ++j) {
        if (!runs(jobs_[j])) any |= go_on(JobId(j));
      }
    }
  }

  // Whether the job got anywhere.
  bool go_on(JobId id) {
    Job& j = jobs_[size_t(id)];
    bool any = false;
    if (j.phase == Phase::between) {
      gate_.begin_step(id, j.program);
      j.phase = Phase::waits, j.node = j.ask = j.report = 0, j.begun_ms = -1, any = true;
    }
    const int64_t starts = start_of(j.shape().node[j.node]);
    const auto& asks = gate_.asks(id);
    for (; j.ask < asks.size() && asks[j.ask] <= starts; ++j.ask, any = true) {
      if (!gate_.may_pass(id, asks[j.ask])) return any;
    }
    if (j.begun_ms < 0) j.begun_ms = now_;
    begin_phase(j, Phase::idle, j.demand().idle_ms);
    return true;
  }

  void begin_phase(Job& j, Phase phase, double ms) { j.phase = phase, j.left = ms / j.job->speed; }

  void advance(double ms) {
    now_ += ms;
    if (options_.clock) *options_.clock = now_;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      Job& j = jobs_[i];
      if (j.phase == Phase::waits) out_.waited_ms[i] += ms;
      if (!runs(j)) continue;
      const double step = std::min(j.left, ms * j.speed);
      j.left -= step;
      if (j.phase != Phase::fetch) j.node_ms += step * j.job->speed;
      if (j.left <= 1e-12) end_phase(JobId(i));
    }
  }

  void end_phase(JobId id) {
    Job& j = jobs_[size_t(id)];
    const NodeDemand& demand = j.demand();
    if (j.phase == Phase::idle) return begin_phase(j, Phase::launch, demand.launch_ms);
    if (j.phase == Phase::launch && options_.memory) {
      const double ms = options_.memory->fetch_ms(id, j.program, j.node);
      j.phase = Phase::fetch, j.left = ms;  // the link does not know how fast the job is
      return;
    }
    if (j.phase == Phase::launch || j.phase == Phase::fetch) {
      return begin_phase(j, Phase::work, demand.work_ms);
    }
    const int64_t done = done_of(j.shape().node[j.node]);
    const auto& reports = gate_.reports(id);
    const bool last = ++j.node == j.shape().nodes.size();
    while (j.report < reports.size() && (reports[j.report] <= done || last)) {
      gate_.passed(id, reports[j.report++]);
    }
    j.phase = Phase::waits;
    if (!last) return;
    gate_.end_step(id);
    out_.steps[size_t(id)].push_back({j.begun_ms, now_});
    j.steps_ms += j.node_ms, j.node_ms = 0;
    j.program = (j.program + 1) % j.job->programs.size();
    j.phase = Phase::between;
  }

  void set_speeds() {
    NodeDemand first, sum;  // of those that go first, and of the others
    int fetches = 0;
    for (const Job& j : jobs_) {
      fetches += j.phase == Phase::fetch && j.left > 0;
      if (j.phase != Phase::work) continue;
      NodeDemand& of = goes_first(j) ? first : sum;
      of.flops += j.demand().flops, of.memory += j.demand().memory, of.units += j.demand().units;
    }
    for (Job& j : jobs_) {
      j.speed = j.phase == Phase::fetch && fetches > 1 ? 1.0 / fetches : 1;
      if (j.phase != Phase::work) continue;
      const bool is_first = goes_first(j);
      const auto share = [&](double mine, double of_first, double of_others) {
        const double left = is_first ? 1 : std::max(1 - of_first, kLeast);
        const double all = is_first ? of_first : of_others;
        if (mine > 0 && all > left) j.speed = std::min(j.speed, left / all);
      };
      share(j.demand().flops, first.flops, sum.flops);
      share(j.demand().memory, first.memory, sum.memory);
      share(j.demand().units, first.units, sum.units);
    }
  }

  bool goes_first(const Job& j) const {
    return options_.first.of(JobId(&j - jobs_.data()), j.demand());
  }

  static constexpr double kLeast = 1e-9;  // of a resource, for whoever does not go first

  PoolGate& gate_;
  const SimulateOptions options_;
  std::vector<Job> jobs_;
  double now_ = 0;
  SimulatedRun out_;
};

}  // namespace

double SimulatedRun::total() const { return std::accumulate(rate.begin(), rate.end(), 0.0); }

SimulatedRun simulate(const std::vector<SimulatedJob>& jobs, PoolGate& gate, double ms,
                      const SimulateOptions& options) {
  return Simulation(jobs, gate, options).run(ms);
}

}  // namespace pal
