// Every state that jobs with tickets can come to.
//
// A job's step has a number of edges; each region is needed from the start of one edge until one is
// done, or not at all. Jobs take that step again and again, and may leave at any moment. All
// combinations of needs are tried, but for the order of regions and of jobs; of those, by default,
// one of many. PAL_TEST_ALL_GATES=N: one of N; 1 takes about a minute.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "memory/share/gate.h"

namespace pal::test {
namespace {

constexpr size_t kMostJobs = 3;

struct Move {
  enum class Kind : uint8_t { begins, asks, reports, ends };
  Kind kind;
  int64_t moment = 0;
};

class States {
 public:
  States(std::vector<RegionProgram> programs, int32_t regions) : jobs_(programs.size()) {
    std::vector<std::vector<RegionProgram>> of_jobs;
    for (RegionProgram& program : programs) {
      std::vector<Move>& moves = moves_.emplace_back();
      std::vector<unsigned>& holds = holds_.emplace_back();
      unsigned held = 0;
      const auto add = [&](const Move& move) { moves.push_back(move), holds.push_back(held); };
      add({Move::Kind::begins});
      for (const RegionUse& use : program.uses) {
        if (!use.takes.empty()) add({Move::Kind::asks, use.moment});
        held |= bits(use.takes);
        if (!use.gives.empty()) add({Move::Kind::reports, use.moment});
        held &= ~bits(use.gives);
      }
      add({Move::Kind::ends});
      holds.resize(2 * moves.size(), 0);
      of_jobs.push_back({std::move(program)});
    }
    size_t all = 1;
    for (size_t j = 0; j < jobs_; ++j) all *= 2 * moves_[j].size() * (jobs_ + 1);
    known_.resize(all);
    reach({ticket_gate(std::move(of_jobs), regions), {}, {}, 0});
  }

  // "", or what goes wrong in a state that can be reached.
  std::string explore() {
    while (!open_.empty() && wrong_.empty()) {
      State state = std::move(open_.back());
      open_.pop_back();
      for (size_t j = 0; j < jobs_; ++j) try_move(state, j);
    }
    return wrong_;
  }
  int64_t states() const { return states_; }

 private:
  struct State {
    std::unique_ptr<PoolGate> gate;
    // By job its move, behind all of them where it would have been had it not left. What it holds
    // follows.
    std::array<uint8_t, kMostJobs> next;
    std::array<uint8_t, kMostJobs> order;  // of jobs within a step, the one that began first
    uint8_t within = 0;                    // how many these are
  };

  static unsigned bits(const std::vector<int32_t>& regions) {
    unsigned out = 0;
    for (const int32_t r : regions) out |= 1u << r;
    return out;
  }
  bool has_left(const State& s, size_t j) const { return s.next[j] >= moves_[j].size(); }

  void try_move(const State& s, size_t j) {
    if (has_left(s, j)) return;
    const Move& move = moves_[j][s.next[j]];
    State to{nullptr, s.next, s.order, s.within};
    ++to.next[j];
    if (move.kind == Move::Kind::begins) to.order[to.within++] = uint8_t(j);
    if (move.kind == Move::Kind::ends) to.next[j] = 0, take_out(to, j);
    const bool is_first = s.within > 0 && s.order[0] == j;
    if (is_first || !is_known(to)) {
      to.gate = s.gate->clone();
      bool passes = true;
      switch (move.kind) {
        case Move::Kind::begins: to.gate->begin_step(JobId(j), 0); break;
        case Move::Kind::asks: passes = to.gate->may_pass(JobId(j), move.moment); break;
        case Move::Kind::reports: to.gate->passed(JobId(j), move.moment); break;
        case Move::Kind::ends: to.gate->end_step(JobId(j)); break;
      }
      // Then somebody can always move: the first, or whoever is between steps.
      if (is_first && !passes) wrong_ = "the job whose step began first waits";
      if (passes && !is_known(to)) reach(std::move(to));
    }
    State without{nullptr, s.next, s.order, s.within};
    without.next[j] = uint8_t(without.next[j] + moves_[j].size());
    if (move.kind != Move::Kind::begins) take_out(without, j);
    if (is_known(without)) return;
    without.gate = s.gate->clone();
    without.gate->leave(JobId(j));
    reach(std::move(without));
  }

  static void take_out(State& s, size_t j) {
    const auto end = s.order.begin() + s.within;
    std::copy(std::find(s.order.begin(), end, j) + 1, end, std::find(s.order.begin(), end, j));
    --s.within;
  }

  void reach(State state) {
    known_[number_of(state)] = 1, ++states_;
    unsigned held = 0;
    for (size_t j = 0; j < jobs_; ++j) {
      const unsigned own = holds_[j][state.next[j]];
      if (held & own) wrong_ = "a region has two holders";
      held |= own;
    }
    open_.push_back(std::move(state));
  }

  size_t number_of(const State& s) const {
    size_t number = 0;
    for (size_t j = 0; j < jobs_; ++j) number = number * 2 * moves_[j].size() + s.next[j];
    for (size_t i = 0; i < jobs_; ++i) {
      number = number * (jobs_ + 1) + (i < s.within ? s.order[i] + 1u : 0);
    }
    return number;
  }
  bool is_known(const State& s) const { return known_[number_of(s)]; }

  size_t jobs_;
  std::vector<std::vector<Move>> moves_;      // by job
  std::vector<std::vector<unsigned>> holds_;  // regions before each move, a bit each
  std::vector<char> known_;
  std::vector<State> open_;
  int64_t states_ = 0;
  std::string wrong_;
};

// The edges at which a region is needed; none: first is behind last.
struct Need {
  int64_t first = 0, last = -1;
};

RegionProgram program_of(const std::vector<Need>& needs, int64_t edges) {
  RegionProgram out{.moments = 2 * edges, .uses = {}};
  for (int64_t moment = 0; moment < out.moments; ++moment) {
    RegionUse use{.moment = moment, .takes = {}, .gives = {}};
    for (size_t r = 0; r < needs.size(); ++r) {
      if (needs[r].first > needs[r].last) continue;
      if (moment == 2 * needs[r].first) use.takes.push_back(int32_t(r));
      if (moment == 2 * needs[r].last + 1) use.gives.push_back(int32_t(r));
    }
    if (!use.takes.empty() || !use.gives.empty()) out.uses.push_back(std::move(use));
  }
  return out;
}

struct Size {
  size_t jobs = 0, regions = 0;
  int64_t edges = 0;
};

// Goes through all combinations: by region, the jobs' needs of it as one number.
class Combinations {
 public:
  explicit Combinations(const Size& size) : size_(size), code_(size.regions, 0) {
    needs_.push_back({});
    for (int64_t first = 0; first < size.edges; ++first) {
      for (int64_t last = first; last < size.edges; ++last) needs_.push_back({first, last});
    }
    for (size_t j = 0; j < size.jobs; ++j) codes_ *= needs_.size();
  }

  // The next one in which regions rise; false behind the last.
  bool advance() {
    size_t r = code_.size();
    while (r > 0 && code_[r - 1] + 1 == codes_) --r;
    if (r == 0) return false;
    ++code_[r - 1];
    std::fill(code_.begin() + int64_t(r), code_.end(), code_[r - 1]);
    return true;
  }
  // Of those that differ by the order of jobs, the first.
  bool is_first() const {
    std::vector<size_t> job(size_.jobs);
    for (size_t j = 0; j < job.size(); ++j) job[j] = j;
    while (std::next_permutation(job.begin(), job.end())) {
      std::vector<size_t> other;
      for (const size_t code : code_) {
        size_t permuted = 0;
        for (const size_t j : job) permuted = permuted * needs_.size() + need_of(code, j);
        other.push_back(permuted);
      }
      std::sort(other.begin(), other.end());
      if (other < code_) return false;
    }
    return true;
  }
  std::vector<RegionProgram> programs() const {
    std::vector<RegionProgram> out;
    for (size_t j = 0; j < size_.jobs; ++j) {
      std::vector<Need> needs;
      for (const size_t code : code_) needs.push_back(needs_[need_of(code, j)]);
      out.push_back(program_of(needs, size_.edges));
    }
    return out;
  }

 private:
  size_t need_of(size_t code, size_t job) const {
    for (size_t j = job + 1; j < size_.jobs; ++j) code /= needs_.size();
    return code % needs_.size();
  }

  Size size_;
  std::vector<Need> needs_;
  size_t codes_ = 1;
  std::vector<size_t> code_;
};

void explore(const Size& size, int64_t usual) {
  const char* asked = std::getenv("PAL_TEST_ALL_GATES");
  const int64_t stride = asked ? std::max<int64_t>(1, std::atoll(asked)) : usual;
  Combinations combinations(size);
  int64_t number = 0, explored = 0, states = 0;
  do {
    if (!combinations.is_first() || number++ % stride) continue;
    States all(combinations.programs(), int32_t(size.regions));
    ASSERT_EQ(all.explore(), "") << "combination " << number - 1;
    ++explored, states += all.states();
  } while (combinations.advance());
  EXPECT_EQ(explored, (number + stride - 1) / stride);
  EXPECT_GT(states, 10 * explored);
  std::printf("%ld of %ld combinations, %ld states\n", long(explored), long(number), long(states));
}

TEST(TicketGateStates, TwoJobsOfFiveEdgesAndThreeRegions) { explore({2, 3, 5}, 100); }
TEST(TicketGateStates, ThreeJobsOfThreeEdgesAndTwoRegions) { explore({3, 2, 3}, 5); }

}  // namespace
}  // namespace pal::test
