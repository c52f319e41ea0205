// Waits of programs that share a circle, and the gate that keeps to them.
#include "memory/share/programs_gate.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/error.h"
#include "memory/share/moments.h"

namespace pal {
namespace {

struct Part {  // of the pool, in grains
  int64_t begin, end;
  size_t job, program, buffer;
};

std::vector<Part> parts_of(const Circle& circle, const PoolPlacement& placement, int64_t grain) {
  std::vector<Part> parts;
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    for (size_t p = 0; p < circle.jobs[j].programs(); ++p) {
      const auto& buffers = circle.jobs[j].program(p).buffers;
      for (size_t i = 0; i < buffers.size(); ++i) {
        const int64_t begin = offset_of(placement, j, p, i);
        parts.push_back({begin / grain, (begin + buffers[i].bytes + grain - 1) / grain, j, p, i});
      }
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
  return parts;
}

int64_t rounded_down(int64_t a, int64_t by) { return a >= 0 ? a / by : -((-a + by - 1) / by); }

// The last step of `job` in which a moment of a program has been passed by a time.
int64_t last_step_by(const Circle& circle, const JobOnCircle& job, size_t program, int64_t moment,
                     int64_t time) {
  int64_t last = INT64_MIN;
  for (int s = 0; s < job.steps; ++s) {
    const int64_t periods = rounded_down(time - job.time(s, moment, program), circle.period);
    last = std::max(last, s + periods * job.steps);
  }
  return last;
}

// What a job is to have passed: a step of it, and a moment of that by its program.
struct Bar {
  int64_t step = INT64_MIN;
  std::vector<int64_t> moment;

  explicit Bar(size_t programs) : moment(programs, -1) {}
  void raise(int64_t s, size_t program, int64_t m) {
    if (s > step) step = s, std::fill(moment.begin(), moment.end(), -1);
    if (s == step) moment[program] = std::max(moment[program], m);
  }
  // Whether whoever has passed this has passed the other.
  bool covers(const Bar& other) const {
    if (step != other.step) return step > other.step;
    for (size_t p = 0; p < moment.size(); ++p) {
      if (moment[p] < other.moment[p]) return false;
    }
    return true;
  }
};

// By job, program, step on the circle, moment and other job.
using Needs = std::map<std::tuple<size_t, size_t, int, int64_t, size_t>, Bar>;

void need_bytes(const Circle& circle, const std::vector<Part>& parts, Needs& needs) {
  const auto need = [&](const Part& earlier, const Part& later) {
    const JobOnCircle &a = circle.jobs[earlier.job], &b = circle.jobs[later.job];
    const int64_t begins = b.program(later.program).buffers[later.buffer].life.begin;
    const int64_t ends = a.program(earlier.program).buffers[earlier.buffer].life.end;
    for (int i = 0; i < b.steps; ++i) {
      const int64_t time = b.time(i, begins, later.program);
      needs.try_emplace({later.job, later.program, i, begins, earlier.job}, a.programs())
          .first->second.raise(last_step_by(circle, a, earlier.program, ends, time),
                               earlier.program, ends);
    }
  };
  for (size_t x = 0; x < parts.size(); ++x) {
    for (size_t y = x + 1; y < parts.size() && parts[y].begin < parts[x].end; ++y) {
      if (parts[x].job == parts[y].job) continue;
      need(parts[x], parts[y]);
      need(parts[y], parts[x]);
    }
  }
}

// Before a job's first step the others are where they are by then.
void need_pace(const Circle& circle, Needs& needs) {
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    for (size_t o = 0; o < circle.jobs.size(); ++o) {
      if (o == j) continue;
      const JobOnCircle& other = circle.jobs[o];
      for (size_t p = 0; p < circle.jobs[j].programs(); ++p) {
        Bar& bar = needs.try_emplace({j, p, 0, 0, o}, other.programs()).first->second;
        for (size_t q = 0; q < other.programs(); ++q) {
          const int64_t moments = other.program(q).moments() / 2 * 2;
          for (int64_t m = 1; m < moments; m += 2) {
            // Copies take no time: those before the first node of compute are no progress.
            if (other.program(q).tick[size_t(m)] == other.program(q).tick[0]) continue;
            bar.raise(last_step_by(circle, other, q, m, circle.jobs[j].begins), q, m);
          }
        }
      }
    }
  }
}

class ProgramsGate final : public PoolGate {
 public:
  ProgramsGate(const Circle& circle, const ProgramWaits& waits)
      : waits_(std::make_shared<ProgramWaits>(waits)) {
    auto edges = std::make_shared<std::vector<std::vector<Edges>>>();
    for (const JobOnCircle& job : circle.jobs) {
      jobs_.push_back({.steps = job.steps});
      edges->emplace_back(job.programs()).shrink_to_fit();
      for (Edges& e : edges->back()) e.asks.resize(size_t(job.steps));
    }
    for (size_t j = 0; j < waits.size(); ++j) {
      for (size_t p = 0; p < waits[j].size(); ++p) {
        for (size_t i = 0; i < waits[j][p].size(); ++i) {
          for (const ProgramWait& wait : waits[j][p][i]) {
            (*edges)[j][p].asks[i].push_back(wait.moment);
            auto& of_other = (*edges)[size_t(wait.other)];
            for (size_t q = 0; q < of_other.size(); ++q) {
              if (wait.other_moment[q] >= 0) of_other[q].reports.push_back(wait.other_moment[q]);
            }
          }
        }
      }
    }
    const auto sorted = [](std::vector<int64_t>& list) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    };
    for (auto& of_job : *edges) {
      for (Edges& e : of_job) {
        sorted(e.reports);
        for (auto& asks : e.asks) sorted(asks);
      }
    }
    edges_ = std::move(edges);
  }

  void begin_step(JobId job, size_t program) override {
    Job& j = at(job);
    if (program >= (*edges_)[size_t(job)].size()) {
      throw ProgramError("[share] a program that is not on the circle begins a step");
    }
    j.next = 0, j.inside = true, j.program = program;
    j.ran[size_t(j.step) % kKept] = program;
  }
  void end_step(JobId job) override {
    Job& j = at(job);
    ++j.step, j.moment = -1, j.inside = false;
  }
  const std::vector<int64_t>& asks(JobId job) const override {
    return edges_of(job).asks[on_circle(job)];
  }
  const std::vector<int64_t>& reports(JobId job) const override { return edges_of(job).reports; }
  bool may_pass(JobId job, int64_t moment) override {
    Job& j = at(job);
    const auto& waits = waits_of_step(job);
    for (; j.next < waits.size() && waits[j.next].moment <= moment; ++j.next) {
      if (!has_passed(waits[j.next], step_of(job, waits[j.next]))) return false;
    }
    return true;
  }
  void passed(JobId job, int64_t moment) override { at(job).moment = moment; }
  void after(JobId job, int64_t moment, std::vector<PassedMoment>& out) const override {
    for (const ProgramWait& wait : waits_of_step(job)) {
      if (wait.moment != moment) continue;
      const Job& other = at(wait.other);
      const int64_t step = step_of(job, wait);
      // What a job has begun before it left is still to be waited for.
      if (other.left && other.step <= step) {
        if (other.step > 0) out.push_back({wait.other, other.step - 1, PassedMoment::kEnd});
        continue;
      }
      // Of steps that are long over nobody knows which program they ran, nor needs to.
      const bool is_known = step >= 0 && other.step - step < int64_t(kKept);
      const int64_t of =
          is_known ? wait.other_moment[other.ran[size_t(step) % kKept]] : PassedMoment::kEnd;
      if (step >= 0 && of >= 0) {
        out.push_back({wait.other, step, of});
      } else if (step > 0) {
        out.push_back({wait.other, step - 1, PassedMoment::kEnd});
      }
    }
  }
  std::vector<int64_t> stops(JobId job) const override {
    std::vector<int64_t> all = reports(job);
    for (const auto& asks : edges_of(job).asks) all = merged_moments(all, asks);
    return all;
  }
  void leave(JobId job) override { at(job).left = true; }
  std::unique_ptr<PoolGate> clone() const override { return std::make_unique<ProgramsGate>(*this); }

 private:
  static constexpr size_t kKept = 8;         // steps of which it is known what they ran
  struct Edges {                             // of a program
    std::vector<std::vector<int64_t>> asks;  // by step on the circle
    std::vector<int64_t> reports;
  };
  struct Job {
    int steps = 1;
    int64_t step = 0, moment = -1;  // that it is in, or begins next; that it has passed of it
    bool inside = false, left = false;
    size_t program = 0;
    size_t next = 0;  // of the waits of its step
    std::array<size_t, kKept> ran = {};
  };
  Job& at(JobId job) { return jobs_[size_t(job)]; }
  const Job& at(JobId job) const { return jobs_[size_t(job)]; }
  size_t on_circle(JobId job) const { return size_t(at(job).step % at(job).steps); }
  const Edges& edges_of(JobId job) const { return (*edges_)[size_t(job)][at(job).program]; }
  const std::vector<ProgramWait>& waits_of_step(JobId job) const {
    return (*waits_)[size_t(job)][at(job).program][on_circle(job)];
  }
  int64_t step_of(JobId job, const ProgramWait& wait) const {
    return at(job).step / at(job).steps * at(wait.other).steps + wait.other_step;
  }
  bool has_passed(const ProgramWait& wait, int64_t step) const {
    const Job& other = at(wait.other);
    if (step < 0 || other.left || other.step > step) return true;
    if (other.step < step) return false;
    if (other.inside) return other.moment >= wait.other_moment[other.program];
    return std::all_of(wait.other_moment.begin(), wait.other_moment.end(),
                       [](int64_t m) { return m < 0; });
  }

  std::shared_ptr<const ProgramWaits> waits_;
  std::shared_ptr<const std::vector<std::vector<Edges>>> edges_;  // by job, by program
  std::vector<Job> jobs_;
};

}  // namespace

ProgramWaits program_waits_of(const Circle& circle, const PoolPlacement& placement, bool paced,
                              int64_t grain) {
  Needs needs;
  need_bytes(circle, parts_of(circle, placement, grain), needs);
  if (paced) need_pace(circle, needs);
  ProgramWaits waits;
  for (const JobOnCircle& job : circle.jobs) {
    waits.emplace_back(job.programs(), std::vector<std::vector<ProgramWait>>(size_t(job.steps)));
  }
  // Of two waits for one job in a step the later one counts only if it waits for more.
  std::map<size_t, Bar> most;  // by other
  size_t job = 0, program = 0;
  int step = -1;
  for (const auto& [key, bar] : needs) {
    const auto [j, p, i, moment, other] = key;
    if (std::tie(j, p, i) != std::tie(job, program, step)) most.clear();
    job = j, program = p, step = i;
    const auto [at, is_new] = most.try_emplace(other, bar);
    if (!is_new && at->second.covers(bar)) continue;
    for (size_t q = 0; q < bar.moment.size(); ++q) at->second.raise(bar.step, q, bar.moment[q]);
    waits[j][p][size_t(i)].push_back({.moment = moment,
                                      .other = JobId(other),
                                      .other_step = int32_t(bar.step),
                                      .other_moment = bar.moment});
  }
  return waits;
}

void check_waits(const Circle& circle, const ProgramWaits& waits) {
  const auto fail = [&](size_t j, int64_t moment) {
    throw ProgramError("[share] " + circle.jobs[j].shape->name + " waits before moment " +
                       std::to_string(moment) + " for what comes later on the circle");
  };
  for (size_t j = 0; j < waits.size(); ++j) {
    for (size_t p = 0; p < waits[j].size(); ++p) {
      for (size_t i = 0; i < waits[j][p].size(); ++i) {
        for (const ProgramWait& wait : waits[j][p][i]) {
          const int64_t time = circle.jobs[j].time(int(i), wait.moment, p);
          const JobOnCircle& other = circle.jobs[size_t(wait.other)];
          const int64_t periods = rounded_down(wait.other_step, other.steps);
          const auto on_circle = int(wait.other_step - periods * other.steps);
          for (size_t q = 0; q < other.programs(); ++q) {
            const int64_t m = wait.other_moment[q];
            // All steps before are over when this one begins.
            const int64_t passed =
                m < 0 ? other.begins + on_circle * other.lasts : other.time(on_circle, m, q);
            if (passed + periods * circle.period > time) fail(j, wait.moment);
          }
        }
      }
    }
  }
}

std::unique_ptr<PoolGate> programs_gate(const Circle& circle, const ProgramWaits& waits) {
  return std::make_unique<ProgramsGate>(circle, waits);
}

}  // namespace pal
