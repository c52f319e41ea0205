// What was seen of each job's regions, and what follows for the next steps.
#include "memory/share/zico_gate.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/spec.h"

namespace pal {
namespace {

// The first moment at which most sharable bytes are alive.
int64_t peak_moment(const StepShape& shape) {
  std::vector<int64_t> change(size_t(shape.moments()) + 1, 0);
  for (const SharableBuffer& b : shape.buffers) {
    change[size_t(b.life.begin)] += b.bytes, change[size_t(b.life.end)] -= b.bytes;
  }
  int64_t alive = 0, most = 0, at = 0;
  for (int64_t m = 0; m < int64_t(change.size()); ++m) {
    alive += change[size_t(m)];
    if (alive > most) most = alive, at = m;
  }
  return at;
}

class Gate final : public ZicoGate {
 public:
  Gate(std::vector<ZicoJob> jobs, std::vector<std::pair<double, int64_t>> budgets,
       const double* clock, const ZicoOptions& options)
      : options_(options), budgets_(std::move(budgets)), clock_(clock) {
    for (ZicoJob& job : jobs) {
      Job& j = jobs_.emplace_back();
      j.bytes = job.region_bytes, j.regions = size_t(job.count());
      j.asks.push_back(0);
      for (RegionUse& use : job.regions.uses) {
        if (!use.takes.empty() && use.moment > 0) j.asks.push_back(use.moment);
        if (!use.gives.empty()) j.reports.push_back(use.moment);
      }
      j.uses = std::move(job.regions.uses);
      local_ += job.local_bytes;
    }
    most_ = local_;
  }

  void begin_step(JobId job, size_t) override {
    Job& j = at(job);
    j.asked = ++tickets_, j.asked_ms = *clock_, j.next = 0;
  }
  void end_step(JobId job) override {
    Job& j = at(job);
    held_ -= j.held * j.bytes;
    j.taken = std::move(j.seen_taken), j.given = std::move(j.seen_given);
    informed_steps_ += j.profiled;
    j.profiled = true;
    stop(j);
  }
  const std::vector<int64_t>& asks(JobId job) const override { return at(job).asks; }
  const std::vector<int64_t>& reports(JobId job) const override { return at(job).reports; }

  bool may_pass(JobId job, int64_t moment) override {
    Job& j = at(job);
    if (!j.inside) {
      if (!is_next(job)) return false;
      start(j);
    }
    const RegionUse* use = use_at(j, moment);
    if (!use || use->takes.empty()) return true;
    const int64_t bytes = int64_t(use->takes.size()) * j.bytes;
    if (local_ + held_ + bytes > there_is()) {
      const bool first = std::none_of(jobs_.begin(), jobs_.end(), [&](const Job& other) {
        return other.inside && other.asked < j.asked;
      });
      if (!first) return false;
      gave_up_ = true;
    }
    held_ += bytes, j.held += int64_t(use->takes.size());
    most_ = std::max(most_, local_ + held_);
    for (int32_t r : use->takes) see(j, j.seen_taken, j.taken, r);
    return true;
  }
  void passed(JobId job, int64_t moment) override {
    Job& j = at(job);
    const RegionUse* use = use_at(j, moment);
    if (!use) return;
    held_ -= int64_t(use->gives.size()) * j.bytes, j.held -= int64_t(use->gives.size());
    for (int32_t r : use->gives) see(j, j.seen_given, j.given, r);
  }
  void leave(JobId job) override {
    Job& j = at(job);
    held_ -= j.held * j.bytes;
    stop(j);
  }
  std::unique_ptr<PoolGate> clone() const override { return std::make_unique<Gate>(*this); }

  bool gave_up() const override { return gave_up_; }
  int64_t most_bytes() const override { return most_; }
  double shifted_ms(JobId job) const override { return at(job).shifted_ms; }

 private:
  struct Job {
    std::vector<RegionUse> uses;
    std::vector<int64_t> asks, reports;
    int64_t bytes = 0;  // of a region
    size_t regions = 0;
    // Of the last step: when each region was taken and given, from its beginning.
    std::vector<double> taken, given;
    bool profiled = false;
    // Of this step.
    bool inside = false;
    int64_t asked = 0;  // ticket; 0 between steps
    double asked_ms = 0, began_ms = 0, late_ms = 0, shifted_ms = 0;
    size_t next = 0;  // of the uses
    int64_t held = 0;
    std::vector<double> seen_taken, seen_given;  // negative: not yet
  };
  Job& at(JobId job) { return jobs_[size_t(job)]; }
  const Job& at(JobId job) const { return jobs_[size_t(job)]; }

  // Moments are met in order.
  static const RegionUse* use_at(Job& j, int64_t moment) {
    while (j.next < j.uses.size() && j.uses[j.next].moment < moment) ++j.next;
    return j.next < j.uses.size() && j.uses[j.next].moment == moment ? &j.uses[j.next] : nullptr;
  }
  void start(Job& j) {
    j.inside = true, j.began_ms = *clock_, j.late_ms = 0, j.held = 0;
    j.shifted_ms += *clock_ - j.asked_ms;
    j.seen_taken.assign(j.regions, -1), j.seen_given.assign(j.regions, -1);
  }
  static void stop(Job& j) { j.inside = false, j.asked = 0, j.held = 0; }
  // A region was taken or given: how late that is, of what was seen last.
  void see(Job& j, std::vector<double>& seen, const std::vector<double>& last, int32_t r) {
    seen[size_t(r)] = *clock_ - j.began_ms;
    if (j.profiled) j.late_ms = seen[size_t(r)] - last[size_t(r)];
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
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const Job& other = jobs_[i];
      if (other.inside || other.asked == 0 || other.asked >= j.asked) continue;
      // A job that is to be seen alone, or that goes by turns, is not passed.
      if (gave_up_ || !other.profiled || may_start(other)) return false;
    }
    return may_start(j);
  }
  bool may_start(const Job& j) const {
    bool alone = true, all_profiled = j.profiled;
    for (const Job& other : jobs_) {
      if (!other.inside) continue;
      alone = false, all_profiled &= other.profiled;
    }
    return alone || (!gave_up_ && all_profiled && would_fit(j));
  }

  // The bytes of all as they were seen to change, each from where it is now.
  bool would_fit(const Job& starting) const {
    std::vector<std::pair<double, int64_t>> changes;
    for (const Job& j : jobs_) {
      const bool starts = &j == &starting;
      if (!j.inside && !starts) continue;
      const double from = starts ? *clock_ : j.began_ms + j.late_ms;
      for (size_t r = 0; r < j.regions; ++r) {
        const bool is_taken = !starts && j.seen_taken[r] >= 0;
        if (!starts && j.seen_given[r] >= 0) continue;
        const double taken = std::max(*clock_, from + j.taken[r]);
        if (!is_taken) changes.emplace_back(taken, j.bytes);
        changes.emplace_back(std::max(is_taken ? *clock_ : taken, from + j.given[r]), -j.bytes);
      }
    }
    std::sort(changes.begin(), changes.end());  // what is given comes before what is taken
    double bytes = double(local_ + held_);
    for (const auto& [when, change] : changes) {
      if ((bytes += double(change)) > allowed() && change > 0) return false;
    }
    return true;
  }

  ZicoOptions options_;
  std::vector<Job> jobs_;
  std::vector<std::pair<double, int64_t>> budgets_;
  const double* clock_;
  int64_t local_ = 0, held_ = 0, most_ = 0, tickets_ = 0, informed_steps_ = 0;
  bool gave_up_ = false;
};

}  // namespace

int64_t ZicoJob::count() const {
  int64_t n = 0;
  for (const RegionUse& use : regions.uses) n += int64_t(use.takes.size());
  return n;
}

ZicoJob zico_job(const StepShape& shape, int64_t region_bytes) {
  const int64_t peak = peak_moment(shape), node_done = peak / 2 * 2 + 1;
  StepShape maps, rest;
  maps.tick = rest.tick = shape.tick;
  for (const SharableBuffer& b : shape.buffers) {
    (b.life.begin <= peak && b.life.end > node_done ? maps : rest).buffers.push_back(b);
  }
  std::stable_sort(
      maps.buffers.begin(), maps.buffers.end(),
      [](const SharableBuffer& a, const SharableBuffer& b) { return a.life.begin < b.life.begin; });
  PoolOffsets offset;
  ZicoJob job{.local_bytes = shape.own_bytes + place_longest_first(rest, offset),
              .region_bytes = region_bytes,
              .regions = {}};
  // All are alive when the peak's node is done, so that each lies behind the one before.
  offset.assign(1, 0);
  for (const SharableBuffer& b : maps.buffers) offset.push_back(offset.back() + b.bytes);
  offset.pop_back();
  job.regions = region_program(maps, offset, region_bytes);
  return job;
}

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

}  // namespace pal
