// Jobs that a gate lets through in an order that a test chooses, and the bytes that they hold.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "memory/share/gate.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {

// A job: its programs, and where each of them has its storages.
struct Player {
  std::vector<const StepShape*> programs;
  std::vector<PoolOffsets> offset;
  int64_t steps_left = 3;  // then it leaves
};

// A device that works later than it is told: a job's nodes run one behind the other, and behind
// what its gate said they come after. The bytes that a node takes must lie behind whoever had them.
class LateDevice {
 public:
  explicit LateDevice(size_t jobs) : jobs_(jobs) {
    for (Job& job : jobs_) job.behind.assign(jobs, {-1, -1});
  }
  void begin_step(JobId id) { ++at(id).step; }
  void wait(JobId id, const PassedMoment& other) {
    auto& behind = at(id).behind[size_t(other.job)];
    behind = std::max(behind, {other.step, other.moment});
  }
  // False where the bytes may still be another's.
  bool take(JobId id, int64_t offset, int64_t bytes) const {
    return std::none_of(had_.begin(), had_.end(), [&](const Had& had) {
      return had.job != id && had.begin < offset + bytes && offset < had.end &&
             at(id).behind[size_t(had.job)] < had.until;
    });
  }
  void give(JobId id, int64_t offset, int64_t bytes, int64_t moment) {
    const int64_t step = at(id).step;
    // The host runs a step ahead and no further.
    std::erase_if(had_, [&](const Had& h) { return h.job == id && h.until.first <= step - 2; });
    had_.push_back({id, offset, offset + bytes, {step, moment}});
  }
  // Who fails leaves when the device has done what it was told.
  void fail(JobId id) {
    std::erase_if(had_, [&](const Had& h) { return h.job == id; });
  }

 private:
  struct Job {
    int64_t step = -1;
    std::vector<std::pair<int64_t, int64_t>> behind;  // by other job: a step and a moment of it
  };
  struct Had {
    JobId job;
    int64_t begin, end;
    std::pair<int64_t, int64_t> until;
  };
  Job& at(JobId id) { return jobs_[size_t(id)]; }
  const Job& at(JobId id) const { return jobs_[size_t(id)]; }
  std::vector<Job> jobs_;
  std::vector<Had> had_;
};

// Does with a gate what its contract says, one moment of one job at a time.
class Schedule {
 public:
  Schedule(PoolGate& gate, std::vector<Player> players, int64_t pool_bytes, Random& random)
      : gate_(gate), random_(random), owner_(pool_bytes), device_(players.size()) {
    for (Player& player : players) jobs_.push_back({std::move(player)});
  }

  bool has_left(JobId id) const { return at(id).left; }
  bool is_within(JobId id) const { return at(id).moment >= 0; }
  // What comes next: the step, counted from 0, and the moment in it, -1 before it has begun.
  std::pair<int64_t, int64_t> next(JobId id) const { return {at(id).step, at(id).moment}; }
  // "" while every byte had one owner at most.
  const std::string& wrong() const { return wrong_; }
  int64_t moves() const { return moves_; }
  // Where steps end when a device has done them, or the gate is for simulation.
  void is_at_once() { is_late_ = false; }

  // A clock in milliseconds that goes on with every move, tried or done, by chance.
  void clock(double* ms) { clock_ = ms; }

  // Whether the job got on.
  bool move(JobId id) {
    if (clock_) *clock_ += double(random_.below(100)) / 50;
    Job& job = at(id);
    if (job.moment < 0) {
      job.program = size_t(random_.below(int64_t(job.player.programs.size())));
      gate_.begin_step(id, job.program);
      device_.begin_step(id);
      job.moment = 0, job.ask = job.report = 0;
      return ++moves_;
    }
    const std::vector<int64_t>&asks = gate_.asks(id), &reports = gate_.reports(id);
    if (job.ask < asks.size() && asks[job.ask] == job.moment) {
      if (!gate_.may_pass(id, job.moment)) return false;
      ++job.ask;
      std::vector<PassedMoment> others;
      if (is_late_) gate_.after(id, job.moment, others);
      for (const PassedMoment& other : others) {
        // Only what was passed can be waited for; of who has left, only what it had passed.
        if (std::pair(other.step, other.moment) >= next(other.job)) {
          if (!has_left(other.job)) wrong_ = "a moment is waited for that was not passed";
          continue;
        }
        device_.wait(id, other);
      }
    }
    take_and_give(id, job);
    if (job.report < reports.size() && reports[job.report] == job.moment) {
      gate_.passed(id, job.moment), ++job.report;
    }
    if (++job.moment > job.shape().moments()) end_step(id, job);
    return ++moves_;
  }

  void leave(JobId id) {
    if (is_within(id)) device_.fail(id);
    gate_.leave(id);
    owner_.free_all_of(id);
    at(id).left = true;
  }

 private:
  struct Job {
    Player player;
    size_t program = 0, ask = 0, report = 0;
    int64_t step = 0, moment = -1;
    bool left = false;
    const StepShape& shape() const { return *player.programs[program]; }
  };
  Job& at(JobId id) { return jobs_[size_t(id)]; }
  const Job& at(JobId id) const { return jobs_[size_t(id)]; }

  // Storages of one job are told apart by the test of placements: here a job is an owner.
  void take_and_give(JobId id, const Job& job) {
    const StepShape& shape = job.shape();
    for (size_t i = 0; i < shape.buffers.size(); ++i) {
      const SharableBuffer& b = shape.buffers[i];
      const int64_t offset = job.player.offset[job.program][i];
      if (b.life.begin == job.moment && !owner_.claim(id, offset, b.bytes)) {
        wrong_ = "job " + std::to_string(id) + " takes bytes that another holds";
      }
      if (is_late_ && b.life.begin == job.moment && !device_.take(id, offset, b.bytes)) {
        wrong_ = "job " + std::to_string(id) + " takes bytes that another's nodes still use";
      }
      if (b.life.end != job.moment) continue;
      owner_.free(id, offset, b.bytes);
      device_.give(id, offset, b.bytes, job.moment);
    }
  }
  void end_step(JobId id, Job& job) {
    if (job.ask < gate_.asks(id).size()) wrong_ = "a moment to ask at never came";
    if (job.report < gate_.reports(id).size()) wrong_ = "a moment to report never came";
    gate_.end_step(id);
    ++job.step, job.moment = -1;
    if (--job.player.steps_left == 0) leave(id);
  }

  PoolGate& gate_;
  Random& random_;
  OwnerMap owner_;
  LateDevice device_;
  bool is_late_ = true;
  std::vector<Job> jobs_;
  std::string wrong_;
  int64_t moves_ = 0;
  double* clock_ = nullptr;
};

struct ScheduleCounts {
  int64_t waits = 0, left_within = 0, left_between = 0, late = 0;
};

// Until all have left: at speeds drawn by chance, from alike to very different, in some schedules
// with a job that leaves at any moment, or that comes late. "", or what went wrong.
inline std::string run_by_chance(Schedule& schedule, size_t jobs, Random& random,
                                 ScheduleCounts& counts) {
  std::vector<int64_t> weight, comes(jobs, 0);
  for (size_t j = 0; j < jobs; ++j) {
    constexpr int64_t kWeights[] = {1, 1, 1, 30, 1000};
    weight.push_back(kWeights[random.below(random.one_in(2) ? 5 : 2)]);
    if (random.one_in(5)) comes[j] = random.below(300), ++counts.late;
  }
  const JobId leaver = random.one_in(3) ? JobId(random.below(int64_t(jobs))) : -1;
  const int64_t leaves_at = random.below(200);
  std::vector<char> waits(jobs, 0);
  while (schedule.wrong().empty()) {
    if (leaver >= 0 && schedule.moves() >= leaves_at && !schedule.has_left(leaver)) {
      ++(schedule.is_within(leaver) ? counts.left_within : counts.left_between);
      schedule.leave(leaver);
      std::fill(waits.begin(), waits.end(), 0);
    }
    int64_t all = 0, absent = 0, here = 0;
    for (size_t j = 0; j < jobs; ++j) {
      if (schedule.has_left(JobId(j))) continue;
      ++here;
      if (schedule.moves() < comes[j]) {
        ++absent;
      } else if (!waits[j]) {
        all += weight[j];
      }
    }
    if (here == 0) return "";
    if (all == 0 && absent == 0) return "all wait";
    if (all == 0) {  // for those who come late
      std::fill(comes.begin(), comes.end(), 0);
      continue;
    }
    int64_t drawn = random.below(all);
    size_t j = 0;
    for (;; ++j) {
      if (schedule.has_left(JobId(j)) || waits[j] || schedule.moves() < comes[j]) continue;
      if ((drawn -= weight[j]) < 0) break;
    }
    if (schedule.move(JobId(j))) {
      std::fill(waits.begin(), waits.end(), 0);
    } else {
      waits[j] = 1, ++counts.waits;
    }
  }
  return schedule.wrong();
}

}  // namespace pal::test
