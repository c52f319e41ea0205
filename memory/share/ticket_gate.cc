// Tickets for regions.
#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "memory/share/gate.h"
#include "memory/share/moments.h"

namespace pal {
namespace {

constexpr int64_t kNotYet = std::numeric_limits<int64_t>::max();

bool comes_before(const PassedMoment& a, const PassedMoment& b) {  // of one job
  return std::tie(a.step, a.moment) < std::tie(b.step, b.moment);
}

class TicketGate final : public PoolGate {
 public:
  TicketGate(std::vector<std::vector<RegionProgram>> programs, int32_t regions)
      : jobs_(programs.size()) {
    auto steps = std::make_shared<std::vector<std::vector<Step>>>();
    for (auto& of_job : programs) {
      auto& steps_of_job = steps->emplace_back();
      for (RegionProgram& program : of_job) {
        Step& step = steps_of_job.emplace_back();
        step.last.assign(size_t(regions), -1);
        for (const RegionUse& use : program.uses) {
          if (!use.takes.empty()) step.asks.push_back(use.moment);
          if (!use.gives.empty()) step.reports.push_back(use.moment);
          for (int32_t r : use.takes) step.last[size_t(r)] = kNotYet;  // until it is given back
          for (int32_t r : use.gives) step.last[size_t(r)] = use.moment;
        }
        step.uses = std::move(program.uses);
      }
    }
    steps_ = std::move(steps);
  }

  void begin_step(JobId job, size_t program) override {
    Job& j = at(job);
    j.program_before = std::exchange(j.program, program);
    j.began = ++tickets_, j.now = -1, j.next = 0, ++j.steps;
  }
  void end_step(JobId job) override { at(job).began = 0; }
  const std::vector<int64_t>& asks(JobId job) const override { return step_of(job).asks; }
  const std::vector<int64_t>& reports(JobId job) const override { return step_of(job).reports; }
  bool may_pass(JobId job, int64_t moment) override {
    const RegionUse* use = use_at(job, moment);
    if (!use) return true;
    return std::all_of(use->takes.begin(), use->takes.end(),
                       [&](int32_t r) { return may_take(job, r); });
  }
  void passed(JobId job, int64_t moment) override { at(job).now = moment; }
  void after(JobId job, int64_t moment, std::vector<PassedMoment>& out) const override {
    const auto& uses = step_of(job).uses;
    const auto use = std::lower_bound(uses.begin(), uses.end(), moment,
                                      [](const RegionUse& u, int64_t m) { return u.moment < m; });
    if (use == uses.end() || use->moment != moment) return;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      if (JobId(i) == job) continue;
      PassedMoment latest{JobId(i), -1, -1};
      for (const int32_t r : use->takes)
        latest = std::max(latest, given(JobId(i), r), comes_before);
      if (latest.step >= 0) out.push_back(latest);
    }
  }
  std::vector<int64_t> stops(JobId job) const override {
    return merged_moments(asks(job), reports(job));
  }
  void leave(JobId job) override { end_step(job); }
  std::unique_ptr<PoolGate> clone() const override { return std::make_unique<TicketGate>(*this); }

 private:
  struct Step {  // of a program
    std::vector<RegionUse> uses;
    std::vector<int64_t> asks, reports, last;  // last: by region, when it is given back
  };
  struct Job {
    size_t program = 0, program_before = 0;  // of its last step, of the one before
    int64_t began = 0;                       // ticket of the running step, 0 between steps
    int64_t now = -1;                        // the moment that it has passed
    size_t next = 0;                         // of the uses of its program
    int64_t steps = 0;                       // begun
  };
  Job& at(JobId job) { return jobs_[size_t(job)]; }
  const Step& step_of(JobId job) const {
    return (*steps_)[size_t(job)][jobs_[size_t(job)].program];
  }

  // When a job last gave a region back, as far as its last two steps can tell: no later than that
  // where it was earlier. Negative: never.
  PassedMoment given(JobId job, int32_t region) const {
    const Job& j = jobs_[size_t(job)];
    if (j.steps == 0) return {job, -1, -1};
    const int64_t last = step_of(job).last[size_t(region)];
    if (last >= 0 && (j.began == 0 || last <= j.now)) return {job, j.steps - 1, last};
    if (j.steps == 1) return {job, -1, -1};
    const int64_t before = (*steps_)[size_t(job)][j.program_before].last[size_t(region)];
    if (before >= 0) return {job, j.steps - 2, before};
    return {job, j.steps - 3, PassedMoment::kEnd};
  }

  // Moments are met in order.
  const RegionUse* use_at(JobId job, int64_t moment) {
    Job& j = at(job);
    const auto& uses = step_of(job).uses;
    while (j.next < uses.size() && uses[j.next].moment < moment) ++j.next;
    return j.next < uses.size() && uses[j.next].moment == moment ? &uses[j.next] : nullptr;
  }
  // Only steps that began earlier can be in the way: a later one was not given what this step still
  // needs.
  bool may_take(JobId job, int32_t region) {
    const int64_t mine = at(job).began;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const Job& other = jobs_[i];
      if (other.began == 0 || other.began >= mine) continue;
      if (step_of(JobId(i)).last[size_t(region)] > other.now) return false;
    }
    return true;
  }

  std::shared_ptr<const std::vector<std::vector<Step>>> steps_;  // by job, by program
  std::vector<Job> jobs_;
  int64_t tickets_ = 0;
};

}  // namespace

std::unique_ptr<PoolGate> ticket_gate(std::vector<std::vector<RegionProgram>> programs,
                                      int32_t regions) {
  return std::make_unique<TicketGate>(std::move(programs), regions);
}

}  // namespace pal
