// Jobs that a gate lets through in an order that a test chooses, and the bytes that they hold.
#pragma once
#include <string>
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

// Does with a gate what its contract says, one moment of one job at a time.
class Schedule {
 public:
  Schedule(PoolGate& gate, std::vector<Player> players, int64_t pool_bytes, Random& random)
      : gate_(gate), random_(random), owner_(pool_bytes) {
    for (Player& player : players) jobs_.push_back({std::move(player)});
  }

  bool has_left(JobId id) const { return at(id).left; }
  bool is_within(JobId id) const { return at(id).moment >= 0; }
  // What comes next: the step, counted from 0, and the moment in it, -1 before it has begun.
  std::pair<int64_t, int64_t> next(JobId id) const { return {at(id).step, at(id).moment}; }
  // "" while every byte had one owner at most.
  const std::string& wrong() const { return wrong_; }
  int64_t moves() const { return moves_; }

  // Whether the job got on.
  bool move(JobId id) {
    Job& job = at(id);
    if (job.moment < 0) {
      job.program = size_t(random_.below(int64_t(job.player.programs.size())));
      gate_.begin_step(id, job.program);
      job.moment = 0, job.ask = job.report = 0;
      return ++moves_;
    }
    const std::vector<int64_t>&asks = gate_.asks(id), &reports = gate_.reports(id);
    if (job.ask < asks.size() && asks[job.ask] == job.moment) {
      if (!gate_.may_pass(id, job.moment)) return false;
      ++job.ask;
    }
    take_and_give(id, job);
    if (job.report < reports.size() && reports[job.report] == job.moment) {
      gate_.passed(id, job.moment), ++job.report;
    }
    if (++job.moment > job.shape().moments()) end_step(id, job);
    return ++moves_;
  }

  void leave(JobId id) {
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
      if (b.life.end == job.moment) owner_.free(id, offset, b.bytes);
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
  std::vector<Job> jobs_;
  std::string wrong_;
  int64_t moves_ = 0;
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
