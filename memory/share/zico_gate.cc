// What was seen of each job's regions, and what follows for the next steps.
#include "memory/share/zico_gate.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "memory/share/moments.h"

namespace pal {
namespace {

// A gate that is copied with what holds it.
struct Places {
  std::unique_ptr<PoolGate> gate;  // null: regions have no places
  Places() = default;
  Places(const Places& other) : gate(other.gate ? other.gate->clone() : nullptr) {}
  Places& operator=(const Places&) = delete;
};

class Gate final : public ZicoGate {
 public:
  Gate(std::vector<ZicoJob> jobs, std::vector<std::pair<double, int64_t>> budgets,
       const double* clock, const ZicoOptions& options)
      : options_(options), budgets_(std::move(budgets)), clock_(clock) {
    for (ZicoJob& job : jobs) {
      Job& j = jobs_.emplace_back();
      j.bytes = job.region_bytes, j.regions = size_t(job.count());
      j.programs.emplace_back(std::move(job.regions));
      local_ += job.local_bytes;
    }
    most_ = local_;
  }
  Gate(ZicoPool pool, const double* clock, const ZicoOptions& options)
      : options_(options),
        budgets_{{0, pool.own_bytes + pool.regions * pool.region_bytes}},
        clock_(clock),
        local_(pool.own_bytes),
        most_(pool.own_bytes) {
    for (const auto& programs : pool.programs) {
      Job& j = jobs_.emplace_back();
      j.bytes = pool.region_bytes, j.regions = size_t(pool.regions);
      for (const RegionProgram& program : programs) j.programs.emplace_back(program);
    }
    places_.gate = ticket_gate(std::move(pool.programs), pool.regions);
  }

  void begin_step(JobId job, size_t program) override {
    Job& j = at(job);
    j.asked = ++tickets_, j.asked_ms = *clock_, j.next = 0, j.program = program;
  }
  void end_step(JobId job) override {
    Job& j = at(job);
    held_ -= j.held * j.bytes;
    Program& p = j.now();
    informed_steps_ += p.profiled;
    p.learn(j.seen_taken, j.seen_given);
    if (places_.gate) {
      places_.gate->end_step(job);
      j.wrong_steps = j.is_wrong ? j.wrong_steps + 1 : 0;
      gave_up_ |= j.wrong_steps >= options_.wrong_steps;
    }
    stop(j);
  }
  const std::vector<int64_t>& asks(JobId job) const override { return at(job).now().edges->asks; }
  const std::vector<int64_t>& reports(JobId job) const override {
    return at(job).now().edges->reports;
  }
  std::vector<int64_t> stops(JobId job) const override {
    return places_.gate ? merged_moments(asks(job), reports(job)) : ZicoGate::stops(job);
  }

  bool may_pass(JobId job, int64_t moment) override {
    Job& j = at(job);
    if (!j.inside) {
      if (!is_next(job)) return false;
      start(job);
    }
    const RegionUse* use = use_at(j, moment);
    if (!use || use->takes.empty()) return true;
    const int64_t bytes = int64_t(use->takes.size()) * j.bytes;
    if (places_.gate) {
      if (!places_.gate->may_pass(job, moment)) {
        j.is_wrong |= !is_held_by_others(job, *use);
        return false;
      }
    } else if (local_ + held_ + bytes > there_is()) {
      const bool first = std::none_of(jobs_.begin(), jobs_.end(), [&](const Job& other) {
        return other.inside && other.asked < j.asked;
      });
      if (!first) return false;
      gave_up_ = true;
    }
    held_ += bytes, j.held += int64_t(use->takes.size());
    most_ = std::max(most_, local_ + held_);
    for (int32_t r : use->takes) see(j, j.seen_taken, j.now().taken, r);
    return true;
  }
  void passed(JobId job, int64_t moment) override {
    Job& j = at(job);
    if (places_.gate) places_.gate->passed(job, moment);
    const RegionUse* use = use_at(j, moment);
    if (!use) return;
    held_ -= int64_t(use->gives.size()) * j.bytes, j.held -= int64_t(use->gives.size());
    for (int32_t r : use->gives) see(j, j.seen_given, j.now().given, r);
  }
  void after(JobId job, int64_t moment, std::vector<PassedMoment>& out) const override {
    if (!places_.gate) return ZicoGate::after(job, moment, out);
    places_.gate->after(job, moment, out);
  }
  double again_ms(JobId job) const override {
    const Job& j = at(job);
    if (j.inside || gave_up_ || !j.now().profiled) return ZicoGate::again_ms(job);
    // As soon as places allow it, or else with what is given next.
    double again = shift_for_places(j);
    if (again > 0) return again;
    again = ZicoGate::again_ms(job);
    for (const Job& other : jobs_) {
      for (size_t r = 0; other.inside && other.now().profiled && r < other.regions; ++r) {
        const double given = other.due_ms() + other.now().given[r] - *clock_;
        if (given > 0) again = std::min(again, given);
      }
    }
    return again;
  }
  void leave(JobId job) override {
    Job& j = at(job);
    held_ -= j.held * j.bytes;
    if (places_.gate) places_.gate->leave(job);
    stop(j);
  }
  std::unique_ptr<PoolGate> clone() const override { return std::make_unique<Gate>(*this); }

  bool gave_up() const override { return gave_up_; }
  int64_t most_bytes() const override { return most_; }
  double shifted_ms(JobId job) const override { return at(job).shifted_ms; }

 private:
  struct Edges {  // of a program
    std::vector<RegionUse> uses;
    std::vector<int64_t> asks{0}, reports;

    explicit Edges(RegionProgram program) : uses(std::move(program.uses)) {
      for (const RegionUse& use : uses) {
        if (!use.takes.empty() && use.moment > 0) asks.push_back(use.moment);
        if (!use.gives.empty()) reports.push_back(use.moment);
      }
    }
  };
  struct Change {  // of the regions that a step holds, in the order in which it was seen
    double ms = 0;
    uint32_t region = 0;
    bool takes = false;
    bool operator<(const Change& other) const {  // what is given comes before what is taken
      return ms != other.ms ? ms < other.ms : takes < other.takes;
    }
  };
  struct Program {
    std::shared_ptr<const Edges> edges;
    // Of the last step: when each region was taken and given, from its beginning.
    std::vector<double> taken = {}, given = {};
    std::vector<Change> changes = {};
    bool profiled = false;

    explicit Program(RegionProgram program)
        : edges(std::make_shared<const Edges>(std::move(program))) {}
    // A step has been seen.
    void learn(std::vector<double>& seen_taken, std::vector<double>& seen_given) {
      std::swap(taken, seen_taken), std::swap(given, seen_given);
      profiled = true;
      changes.clear();
      for (size_t r = 0; r < taken.size(); ++r) {
        if (taken[r] < 0) continue;
        changes.push_back({taken[r], uint32_t(r), true});
        changes.push_back({given[r], uint32_t(r), false});
      }
      std::sort(changes.begin(), changes.end());
    }
  };
  struct Job {
    std::vector<Program> programs;
    size_t program = 0;
    int64_t bytes = 0;  // of a region
    size_t regions = 0;
    // Of this step.
    bool inside = false;
    int64_t asked = 0;                     // ticket; 0 between steps
    int passed_over = 0, wrong_steps = 0;  // times, and steps in a row, by now
    double asked_ms = 0, began_ms = 0, late_ms = 0, shifted_ms = 0;
    size_t next = 0;  // of the uses
    int64_t held = 0;
    bool is_wrong = false;                       // it waited for what nobody had
    std::vector<double> seen_taken, seen_given;  // negative: not yet

    Program& now() { return programs[program]; }
    const Program& now() const { return programs[program]; }
    // When its step would have begun, had all so far taken as long as last time.
    double due_ms() const { return began_ms + late_ms; }
    bool has(size_t region) const { return seen_taken[region] >= 0 && seen_given[region] < 0; }
  };
  static constexpr int kPassedOver = 8;

  Job& at(JobId job) { return jobs_[size_t(job)]; }
  const Job& at(JobId job) const { return jobs_[size_t(job)]; }

  // Moments are met in order.
  static const RegionUse* use_at(Job& j, int64_t moment) {
    const auto& uses = j.now().edges->uses;
    while (j.next < uses.size() && uses[j.next].moment < moment) ++j.next;
    return j.next < uses.size() && uses[j.next].moment == moment ? &uses[j.next] : nullptr;
  }
  void start(JobId job) {
    Job& j = at(job);
    j.inside = true, j.began_ms = *clock_, j.late_ms = 0, j.held = 0, j.is_wrong = false;
    j.shifted_ms += *clock_ - j.asked_ms;
    j.seen_taken.assign(j.regions, -1), j.seen_given.assign(j.regions, -1);
    j.passed_over = 0;
    for (Job& other : jobs_) {
      if (!other.inside && other.asked > 0 && other.asked < j.asked) ++other.passed_over;
    }
    if (places_.gate) places_.gate->begin_step(job, j.program);
  }
  static void stop(Job& j) { j.inside = false, j.asked = 0, j.held = 0; }
  // A region was taken or given: how late that is, of what was seen last.
  void see(Job& j, std::vector<double>& seen, const std::vector<double>& last, int32_t r) {
    seen[size_t(r)] = *clock_ - j.began_ms;
    if (j.now().profiled) j.late_ms = seen[size_t(r)] - last[size_t(r)];
  }
  bool is_held_by_others(JobId job, const RegionUse& use) const {
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const Job& other = jobs_[i];
      if (JobId(i) == job || !other.inside) continue;
      for (const int32_t r : use.takes) {
        if (other.has(size_t(r))) return true;
      }
    }
    return false;
  }

  int64_t there_is() const {
    int64_t bytes = 0;
    for (const auto& [from, b] : budgets_) {
      if (*clock_ >= from) bytes = b;
    }
    return bytes;
  }
  double allowed() const {
    const double part =
        options_.first_part + options_.raise * int(informed_steps_ / options_.steps_to_raise);
    return std::min(1.0, part) * double(there_is());
  }

  // Whether the job's step may begin, and none that asked before it may.
  bool is_next(JobId job) const {
    const Job& j = at(job);
    for (const Job& other : jobs_) {
      if (other.inside || other.asked == 0 || other.asked >= j.asked) continue;
      // A job that is to be seen alone, or that goes by turns, is not passed.
      if (gave_up_ || !other.now().profiled || other.passed_over >= kPassedOver) return false;
      if (may_start(other)) return false;
    }
    return may_start(j);
  }
  bool may_start(const Job& j) const {
    bool alone = true, all_profiled = j.now().profiled;
    for (const Job& other : jobs_) {
      if (!other.inside) continue;
      alone = false, all_profiled &= other.now().profiled;
    }
    return alone || (!gave_up_ && all_profiled && shift_for_places(j) <= 0 && would_fit(j));
  }

  // How much later a step must begin so that none of its regions is one that a step under way still
  // needs then.
  double shift_for_places(const Job& starting) const {
    double shift = 0;
    if (!places_.gate) return shift;
    const std::vector<double>& taken = starting.now().taken;
    for (const Job& j : jobs_) {
      if (!j.inside || &j == &starting || !j.now().profiled) continue;
      const double due = j.due_ms() - *clock_;
      for (size_t r = 0; r < taken.size(); ++r) {
        if (taken[r] < 0 || j.now().taken[r] < 0 || j.seen_given[r] >= 0) continue;
        shift = std::max(shift, due + j.now().given[r] - taken[r]);
      }
    }
    return shift;
  }

  // A step that is followed from now on: what it has yet to take and give.
  struct Ahead {
    const Change *next, *end;
    double from, ms;    // when it began, or would have; of the next change, kNever behind the last
    double bytes;       // of a region
    const Job* within;  // null: the step begins now

    Ahead(const Job& job, double began, bool starts)
        : next(job.now().changes.data()),
          end(next + job.now().changes.size()),
          from(began),
          bytes(double(job.bytes)),
          within(starts ? nullptr : &job) {
      skip();
    }
    void advance() { ++next, skip(); }
    void skip() {
      while (within && next != end && is_done(*next)) ++next;
      ms = next == end ? kNever : from + next->ms;
    }
    bool is_done(const Change& c) const {
      return within->seen_given[c.region] >= 0 || (c.takes && within->seen_taken[c.region] >= 0);
    }
    // What is given comes before what is taken.
    bool comes_before(const Ahead& other) const {
      return ms < other.ms || (ms == other.ms && ms < kNever && !next->takes);
    }
  };
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // The bytes of all as they were seen to change, each from where it is now.
  bool would_fit(const Job& starting) const {
    double room = allowed() - double(local_ + held_);
    bool takes = false;
    std::vector<Ahead> all;
    all.reserve(jobs_.size());
    for (const Job& j : jobs_) {
      const bool starts = &j == &starting;
      if (!j.inside && !starts) continue;
      // What is late comes at once.
      Ahead ahead(j, starts ? *clock_ : j.due_ms(), starts);
      for (; ahead.ms <= *clock_; ahead.advance()) {
        room -= ahead.next->takes ? ahead.bytes : -ahead.bytes, takes |= ahead.next->takes;
      }
      all.push_back(ahead);
    }
    if (takes && room < 0) return false;
    while (true) {
      Ahead* next = all.data();
      for (size_t i = 1; i < all.size(); ++i) next = all[i].comes_before(*next) ? &all[i] : next;
      if (next->ms == kNever) return true;
      if (!next->next->takes) {
        room += next->bytes;
      } else if ((room -= next->bytes) < 0) {
        return false;
      }
      next->advance();
    }
  }

  ZicoOptions options_;
  std::vector<Job> jobs_;
  std::vector<std::pair<double, int64_t>> budgets_;
  const double* clock_;
  Places places_;
  int64_t local_ = 0, held_ = 0, most_ = 0, tickets_ = 0, informed_steps_ = 0;
  bool gave_up_ = false;
};

}  // namespace

std::unique_ptr<ZicoGate> zico_gate(std::vector<ZicoJob> jobs,
                                    std::vector<std::pair<double, int64_t>> budgets,
                                    const double* clock, const ZicoOptions& options) {
  int64_t local = 0;
  for (const ZicoJob& job : jobs) local += job.local_bytes;
  for (const auto& [from, bytes] : budgets) {
    for (const ZicoJob& job : jobs) {
      const int64_t needs = local + job.count() * job.region_bytes;
      if (needs <= bytes) continue;
      throw ProgramError("[share] a job needs " + std::to_string(needs) +
                         " bytes beside what is local to the others, " +
                         std::to_string(needs - bytes) + " more than there are");
    }
  }
  return std::make_unique<Gate>(std::move(jobs), std::move(budgets), clock, options);
}

std::unique_ptr<ZicoGate> zico_gate(ZicoPool pool, const double* clock,
                                    const ZicoOptions& options) {
  return std::make_unique<Gate>(std::move(pool), clock, options);
}

}  // namespace pal
