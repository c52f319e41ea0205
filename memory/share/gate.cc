// Three rules: waits of a circle, turns, and none.
#include "memory/share/gate.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "core/error.h"
#include "memory/share/moments.h"

namespace pal {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// How far a job is: which step, and within it which moment has been passed.
struct Progress {
  int64_t step = 0, moment = -1;
  bool operator==(const Progress&) const = default;
  bool operator<(const Progress& other) const {
    return step != other.step ? step < other.step : moment < other.moment;
  }
};

struct Piece {  // of the pool, in grains
  int64_t begin, end;
  size_t job, buffer;
};

std::vector<Piece> pieces_of(const Circle& circle, const PoolPlacement& placement, int64_t grain) {
  std::vector<Piece> pieces;
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    for (size_t i = 0; i < placement.offset[j].size(); ++i) {
      const int64_t begin = placement.offset[j][i];
      const int64_t end = begin + circle.jobs[j].shape->buffers[i].bytes;
      pieces.push_back({begin / grain, (end + grain - 1) / grain, j, i});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  return pieces;
}

// The last end of `earlier` (of another job) before `later` begins in its step `i`.
Progress last_end_before(const Circle& circle, const Piece& earlier, const Piece& later, int i) {
  const JobOnCircle &a = circle.jobs[earlier.job], &b = circle.jobs[later.job];
  const int64_t begins = b.time(i, b.shape->buffers[later.buffer].life.begin);
  const int64_t moment = a.shape->buffers[earlier.buffer].life.end;
  Progress last{std::numeric_limits<int64_t>::min(), moment};
  for (int s = 0; s < a.steps; ++s) {
    const int64_t ends = a.time(s, moment);
    const int64_t since = begins - ends;
    const int64_t periods =
        since >= 0 ? since / circle.period : -((-since + circle.period - 1) / circle.period);
    last.step = std::max(last.step, s + periods * a.steps);
  }
  return last;
}

class CircleGate final : public PoolGate {
 public:
  CircleGate(const Circle& circle, const CircleWaits& waits) : waits_(waits) {
    for (const JobOnCircle& job : circle.jobs) {
      jobs_.push_back({.steps = job.steps});
      asks_.emplace_back(size_t(job.steps));
      reports_.emplace_back(1);
    }
    for (size_t j = 0; j < waits.size(); ++j) {
      for (size_t i = 0; i < waits[j].size(); ++i) {
        for (const CircleWait& wait : waits[j][i]) {
          asks_[j][i].push_back(wait.moment);
          reports_[size_t(wait.other)][0].push_back(wait.other_moment);
        }
      }
    }
    for (auto* lists : {&asks_, &reports_}) {
      for (auto& job : *lists) {
        for (auto& list : job) {
          std::sort(list.begin(), list.end());
          list.erase(std::unique(list.begin(), list.end()), list.end());
        }
      }
    }
  }

  void begin_step(JobId job, size_t) override { at(job).next = 0; }
  void end_step(JobId job) override {
    Job& j = at(job);
    j.now = {j.now.step + 1, -1};
  }
  const std::vector<int64_t>& asks(JobId job) const override {
    return asks_[size_t(job)][on_circle(job)];
  }
  const std::vector<int64_t>& reports(JobId job) const override { return reports_[size_t(job)][0]; }

  bool may_pass(JobId job, int64_t moment) override {
    Job& j = at(job);
    const auto& waits = waits_[size_t(job)][on_circle(job)];
    const int64_t period = j.now.step / j.steps;
    for (; j.next < waits.size() && waits[j.next].moment <= moment; ++j.next) {
      const CircleWait& wait = waits[j.next];
      const Job& other = at(wait.other);
      const int64_t step = period * other.steps + wait.other_step;
      if (step >= 0 && !other.left && other.now < Progress{step, wait.other_moment}) return false;
    }
    return true;
  }
  void passed(JobId job, int64_t moment) override { at(job).now.moment = moment; }
  void after(JobId job, int64_t moment, std::vector<PassedMoment>& out) const override {
    const Job& j = jobs_[size_t(job)];
    const int64_t period = j.now.step / j.steps;
    for (const CircleWait& wait : waits_[size_t(job)][on_circle(job)]) {
      if (wait.moment != moment) continue;
      const Job& other = jobs_[size_t(wait.other)];
      const int64_t step = period * other.steps + wait.other_step;
      // What a job has begun before it left is still to be waited for.
      if (other.now.step <= step && other.left) {
        if (other.now.step > 0) out.push_back({wait.other, other.now.step - 1, PassedMoment::kEnd});
      } else if (step >= 0) {
        out.push_back({wait.other, step, wait.other_moment});
      }
    }
  }
  std::vector<int64_t> stops(JobId job) const override {
    std::vector<int64_t> all = reports_[size_t(job)][0];
    for (const auto& asks : asks_[size_t(job)]) all = merged_moments(all, asks);
    return all;
  }
  void leave(JobId job) override { at(job).left = true; }
  std::unique_ptr<PoolGate> clone() const override { return std::make_unique<CircleGate>(*this); }

 private:
  struct Job {
    int steps = 1;
    Progress now = {};
    size_t next = 0;  // of the waits of its step
    bool left = false;
  };
  Job& at(JobId job) { return jobs_[size_t(job)]; }
  size_t on_circle(JobId job) const {
    const Job& j = jobs_[size_t(job)];
    return size_t(j.now.step % j.steps);
  }

  CircleWaits waits_;
  std::vector<Job> jobs_;
  std::vector<std::vector<std::vector<int64_t>>> asks_, reports_;  // by job, by step on the circle
};

class OpenGate final : public PoolGate {
 public:
  void begin_step(JobId, size_t) override {}
  void end_step(JobId) override {}
  const std::vector<int64_t>& asks(JobId) const override { return none_; }
  const std::vector<int64_t>& reports(JobId) const override { return none_; }
  bool may_pass(JobId, int64_t) override { return true; }
  void passed(JobId, int64_t) override {}
  void leave(JobId) override {}
  void after(JobId, int64_t, std::vector<PassedMoment>&) const override {}
  std::vector<int64_t> stops(JobId) const override { return {}; }
  std::unique_ptr<PoolGate> clone() const override { return std::make_unique<OpenGate>(*this); }

 private:
  std::vector<int64_t> none_;
};

// Of its steps each begins where the last one is over, on the device too.
class TurnGate final : public PoolGate {
 public:
  void begin_step(JobId job, size_t) override { queue_.push_back(job); }
  void end_step(JobId job) override { std::erase(queue_, job); }
  const std::vector<int64_t>& asks(JobId) const override { return at_first_; }
  const std::vector<int64_t>& reports(JobId) const override { return none_; }
  bool may_pass(JobId job, int64_t) override { return queue_.front() == job; }
  void passed(JobId, int64_t) override {}
  void after(JobId, int64_t, std::vector<PassedMoment>&) const override {}
  std::vector<int64_t> stops(JobId) const override { return {}; }
  void leave(JobId job) override { end_step(job); }
  std::unique_ptr<PoolGate> clone() const override { return std::make_unique<TurnGate>(*this); }

 private:
  std::vector<int64_t> at_first_{0}, none_;
  std::deque<JobId> queue_;
};

}  // namespace

void PoolGate::after(JobId, int64_t, std::vector<PassedMoment>&) const {
  throw ProgramError("[share] this gate is for simulation: it does not say who let a job pass");
}

std::vector<int64_t> PoolGate::stops(JobId) const {
  throw ProgramError("[share] this gate is for simulation: it does not say where jobs stop");
}

CircleWaits waits_of(const Circle& circle, const PoolPlacement& placement, int64_t grain) {
  // By job, step on the circle and other job: what must have been passed before a moment.
  std::vector<std::vector<std::map<std::pair<int64_t, size_t>, Progress>>> needed;
  for (const JobOnCircle& job : circle.jobs) needed.emplace_back(size_t(job.steps));
  const auto need = [&](const Piece& earlier, const Piece& later) {
    const JobOnCircle& job = circle.jobs[later.job];
    const int64_t moment = job.shape->buffers[later.buffer].life.begin;
    for (int i = 0; i < job.steps; ++i) {
      const Progress end = last_end_before(circle, earlier, later, i);
      const auto [at, is_new] =
          needed[later.job][size_t(i)].try_emplace({moment, earlier.job}, end);
      if (!is_new) at->second = std::max(at->second, end);
    }
  };
  const std::vector<Piece> pieces = pieces_of(circle, placement, grain);
  for (size_t a = 0; a < pieces.size(); ++a) {
    for (size_t b = a + 1; b < pieces.size() && pieces[b].begin < pieces[a].end; ++b) {
      if (pieces[a].job == pieces[b].job) continue;
      need(pieces[a], pieces[b]);
      need(pieces[b], pieces[a]);
    }
  }
  // Of two waits for one job the later one counts only if it waits for more.
  CircleWaits waits;
  for (size_t j = 0; j < needed.size(); ++j) {
    const int steps = circle.jobs[j].steps;
    auto& of_job = waits.emplace_back(size_t(steps));
    std::map<size_t, Progress> most;
    for (int i = -steps; i < steps; ++i) {
      const bool before = i < 0;  // in the period before
      for (const auto& [when, progress] : needed[j][size_t(before ? i + steps : i)]) {
        const auto [moment, other] = when;
        Progress end = progress;
        if (before) end.step -= circle.jobs[other].steps;
        if (before && end.step >= 0) continue;  // nobody waited for it before the first period
        const auto [at, is_new] = most.try_emplace(other, end);
        if (!is_new && !(at->second < end)) continue;
        at->second = end;
        if (before) continue;
        of_job[size_t(i)].push_back({.moment = moment,
                                     .other = JobId(other),
                                     .other_step = int32_t(end.step),
                                     .other_moment = end.moment});
      }
    }
  }
  return waits;
}

void check_waits(const Circle& circle, const CircleWaits& waits) {
  constexpr int64_t kPeriods = 4;  // a wait goes back by two at most
  const size_t jobs = circle.jobs.size();
  std::vector<Progress> now(jobs);
  std::vector<size_t> next(jobs, 0);
  // Goes on as far as the others let it.
  const auto advance = [&](size_t j) {
    const int steps = circle.jobs[j].steps;
    while (now[j].step < kNever) {
      const auto& of_step = waits[j][size_t(now[j].step % steps)];
      for (; next[j] < of_step.size(); ++next[j]) {
        const CircleWait& wait = of_step[next[j]];
        const auto other = size_t(wait.other);
        const int64_t step = now[j].step / steps * circle.jobs[other].steps + wait.other_step;
        now[j].moment = wait.moment - 1;
        if (step >= 0 && now[other] < Progress{step, wait.other_moment}) return;
      }
      now[j] = {now[j].step + 1, -1}, next[j] = 0;
      if (now[j].step == kPeriods * steps) now[j].step = kNever;  // it has left
    }
  };
  for (std::vector<Progress> before; before != now;) {
    before = now;
    for (size_t j = 0; j < jobs; ++j) advance(j);
  }
  for (size_t j = 0; j < jobs; ++j) {
    if (now[j].step == kNever) continue;
    throw ProgramError("[share] " + circle.jobs[j].shape->name + " comes to a stop in step " +
                       std::to_string(now[j].step) + " before moment " +
                       std::to_string(now[j].moment + 1) + ": jobs wait for each other");
  }
}

std::unique_ptr<PoolGate> circle_gate(const Circle& circle, const CircleWaits& waits) {
  return std::make_unique<CircleGate>(circle, waits);
}

std::unique_ptr<PoolGate> open_gate() { return std::make_unique<OpenGate>(); }

std::unique_ptr<PoolGate> turn_gate() { return std::make_unique<TurnGate>(); }

}  // namespace pal
