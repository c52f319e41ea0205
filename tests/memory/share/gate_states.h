// Every state that jobs under a gate can come to.
//
// A job's step has a number of edges; each region is needed from the start of one edge until one is
// done, or not at all. Jobs take that step again and again, and may leave at any moment.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/share/gate.h"
#include "memory/share/zico_gate.h"

namespace pal::test {

// The edges at which a region is needed; none: first is behind last.
struct Need {
  int64_t first = 0, last = -1;
};

inline RegionProgram program_of(const std::vector<Need>& needs, int64_t edges) {
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

struct GateSize {
  size_t jobs = 0, regions = 0;
  int64_t edges = 0;
};

// Goes through all combinations of needs: by region, the jobs' needs of it as one number.
class NeedCombinations {
 public:
  explicit NeedCombinations(const GateSize& size) : size_(size), code_(size.regions, 0) {
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

  GateSize size_;
  std::vector<Need> needs_;
  size_t codes_ = 1;
  std::vector<size_t> code_;
};

// A gate of these jobs, with a step each, and the clock that it goes by.
using MakeGate =
    std::function<std::unique_ptr<PoolGate>(std::vector<RegionProgram>, int32_t, const double*)>;

// Explores them for tickets, and for Zico's gate. That one's answers depend on when it is asked,
// too: a step that waits to begin asks right away, and after a time so long that all that was
// foreseen is over. Two states are one where all jobs have come equally far, and the gate knows as
// much of them; the one that is come to first is followed, with the times that it has seen.
class GateStates {
 public:
  GateStates(const std::vector<RegionProgram>& programs, int32_t regions, const MakeGate& make)
      : jobs_(programs.size()) {
    State first;
    first.gate = make(programs, regions, &clock_);
    is_zico_ = zico(first) != nullptr;
    for (const RegionProgram& program : programs) {
      auto& moves = moves_.emplace_back();
      auto& holds = holds_.emplace_back();
      auto& takes = takes_.emplace_back();
      unsigned held = 0;
      const auto add = [&](Move move, unsigned taken = 0) {
        moves.push_back(move), holds.push_back(held), takes.push_back(taken);
      };
      add({Move::Kind::begins});
      if (is_zico_ && (program.uses.empty() || program.uses[0].moment > 0)) {
        add({Move::Kind::asks, 0});
      }
      for (const RegionUse& use : program.uses) {
        const bool asks = !use.takes.empty() || (is_zico_ && use.moment == 0);
        if (asks) add({Move::Kind::asks, use.moment}, bits(use.takes));
        held |= bits(use.takes);
        if (!use.gives.empty()) add({Move::Kind::reports, use.moment});
        held &= ~bits(use.gives);
      }
      add({Move::Kind::ends});
      holds.push_back(0);  // of a job that has left
    }
    reach(std::move(first));
  }

  // "", or what goes wrong in a state that can be reached.
  std::string explore() {
    while (!open_.empty() && wrong_.empty()) {
      State state = std::move(open_.front());
      open_.pop_front();
      for (size_t j = 0; j < jobs_; ++j) {
        if (!has_left(state, j)) try_moves(state, j);
      }
    }
    return wrong_;
  }
  int64_t states() const { return int64_t(known_.size()); }
  bool gave_up() const { return gave_up_; }
  // How far jobs within their steps can be, and in which order these began: a number for each, but
  // of states in which nobody is about to take its first region, or is seen for the first time, or
  // takes turns.
  std::vector<uint64_t> within() const {
    std::vector<uint64_t> all;
    for (const auto& [key, place] : known_) {
      if (place != kNowhere) all.push_back(place);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

 private:
  static constexpr size_t kMostJobs = 3;
  static constexpr uint64_t kNowhere = UINT64_MAX;

  struct Move {
    enum class Kind : uint8_t { begins, asks, reports, ends };
    Kind kind;
    int64_t moment = 0;
  };
  struct Jobs {  // in an order
    std::array<uint8_t, kMostJobs> job{};
    uint8_t count = 0;
    void add(size_t j) { job[count++] = uint8_t(j); }
    void take_out(size_t j) {
      const auto end = job.begin() + count;
      const auto at = std::find(job.begin(), end, j);
      if (at == end) return;
      std::copy(at + 1, end, at);
      --count;
    }
    bool has(size_t j) const {
      return std::find(job.begin(), job.begin() + count, j) != job.begin() + count;
    }
    uint64_t number() const {
      uint64_t out = 0;
      for (size_t i = 0; i < kMostJobs; ++i) out = out * 4 + (i < count ? job[i] + 1u : 0);
      return out;
    }
  };
  struct State {
    std::unique_ptr<PoolGate> gate = nullptr;
    double clock = 0;
    std::array<uint8_t, kMostJobs> next{};  // move; what a job holds follows
    Jobs begun, waits;                      // the latter: that have asked to begin
    uint8_t seen = 0;                       // jobs of which the gate has seen a step
    uint8_t wrong = 0;  // jobs that waited, within this step, for what nobody held
  };

  static unsigned bits(const std::vector<int32_t>& regions) {
    unsigned out = 0;
    for (const int32_t r : regions) out |= 1u << r;
    return out;
  }
  static const ZicoGate* zico(const State& s) {
    return dynamic_cast<const ZicoGate*>(s.gate.get());
  }
  bool has_left(const State& s, size_t j) const { return s.next[j] == moves_[j].size(); }
  State copy(const State& s, double later) {
    State to = {s.gate->clone(), s.clock + later, s.next, s.begun, s.waits, s.seen, s.wrong};
    clock_ = to.clock;
    return to;
  }

  void try_moves(const State& s, size_t j) {
    const Move move = moves_[j][s.next[j]];
    const auto id = JobId(j);
    const auto bit = uint8_t(1u << j);
    if (move.kind == Move::Kind::asks) {
      ask(s, j, kSoon);
      if (s.waits.has(j)) ask(s, j, kLate * s.clock);
    } else {
      State to = copy(s, kSoon);
      ++to.next[j];
      switch (move.kind) {
        case Move::Kind::begins:
          to.gate->begin_step(id, 0);
          (is_zico_ ? to.waits : to.begun).add(j);
          break;
        case Move::Kind::ends:
          to.gate->end_step(id);
          to.next[j] = 0, to.begun.take_out(j), to.wrong &= uint8_t(~bit);
          to.seen |= is_zico_ ? bit : 0;
          break;
        default: to.gate->passed(id, move.moment);
      }
      reach(std::move(to));
    }
    State without = copy(s, kSoon);
    without.gate->leave(id);
    without.next[j] = uint8_t(moves_[j].size());
    without.begun.take_out(j), without.waits.take_out(j);
    without.wrong &= uint8_t(~bit), without.seen |= is_zico_ ? bit : 0;
    reach(std::move(without));
  }

  void ask(const State& s, size_t j, double later) {
    State to = copy(s, later);
    const double delayed = is_zico_ ? zico(to)->shifted_ms(JobId(j)) : 0;
    const bool was_waiting = to.waits.has(j);
    const bool passes = to.gate->may_pass(JobId(j), moves_[j][s.next[j]].moment);
    // Time goes on between its request and this, so that it is delayed at least by that.
    if (was_waiting && zico(to)->shifted_ms(JobId(j)) > delayed) begin(to, j);
    const bool has_begun = to.begun.has(j);
    if (passes && !has_begun) fail("a job goes on whose step has not begun");
    if (passes) ++to.next[j];
    if (!passes && has_begun) {
      // Then somebody can always move: the first, or whoever is between steps.
      if (to.begun.job[0] == j) fail("the job whose step began first waits");
      if (!(held_by_others(to, j) & takes_[j][s.next[j]])) to.wrong |= uint8_t(1u << j);
    }
    if (!has_begun && s.begun.count == 0 && s.waits.job[0] == j) {
      fail("nobody is within a step, and the first that asked may not begin");
    }
    reach(std::move(to));
  }

  void begin(State& s, size_t j) {
    s.waits.take_out(j);
    if (s.begun.count > 0 && zico(s)->gave_up())
      fail("of jobs that take turns two are within steps");
    const bool all_seen = std::all_of(s.begun.job.begin(), s.begun.job.begin() + s.begun.count,
                                      [&](uint8_t i) { return s.seen >> i & 1; });
    if (s.begun.count > 0 && !(all_seen && (s.seen >> j & 1))) {
      fail("a job that is seen for the first time is not alone");
    }
    s.begun.add(j);
  }
  unsigned held_by_others(const State& s, size_t j) const {
    unsigned held = 0;
    for (size_t i = 0; i < jobs_; ++i) held |= i == j ? 0 : holds_[i][s.next[i]];
    return held;
  }
  void fail(const char* what) {
    if (wrong_.empty()) wrong_ = what;
  }

  void reach(State state) {
    const bool gave_up = is_zico_ && zico(state)->gave_up();
    gave_up_ |= gave_up;
    uint64_t key = gave_up;
    for (size_t j = 0; j < jobs_; ++j) key = key * (moves_[j].size() + 1) + state.next[j];
    key = (key * 64 + state.begun.number()) * 64 + state.waits.number();
    key = (key * 8 + state.seen) * 8 + state.wrong;
    if (!known_.try_emplace(key, place_of(state, gave_up)).second) return;
    for (size_t j = 0; j < jobs_; ++j) {
      if (held_by_others(state, j) & holds_[j][state.next[j]]) fail("a region has two holders");
    }
    open_.push_back(std::move(state));
  }

  uint64_t place_of(const State& s, bool gave_up) const {
    if (gave_up || s.waits.count > 0) return kNowhere;
    uint64_t number = 0;
    for (size_t j = 0; j < jobs_; ++j) {
      const auto& moves = moves_[j];
      const size_t next = s.next[j];
      // Counted from the step's end, since steps under Zico's gate have a move more.
      const bool is_first = next == 1 && moves[1].kind == Move::Kind::asks && moves[1].moment == 0;
      if (is_first) return kNowhere;
      if (is_zico_ && !has_left(s, j) && !(s.seen >> j & 1)) return kNowhere;
      number = number * 64 + (next == 0 ? 63 : moves.size() - next);
    }
    return number * 64 + s.begun.number();
  }

  // Milliseconds from a move to the next; and how many times what has passed so far, until all is
  // over: a step that is late by no more lasts no longer.
  static constexpr double kSoon = 1, kLate = 4;

  size_t jobs_;
  bool is_zico_ = false, gave_up_ = false;
  double clock_ = 0;
  std::vector<std::vector<Move>> moves_;              // by job
  std::vector<std::vector<unsigned>> holds_, takes_;  // regions before each move, of it; a bit each
  std::unordered_map<uint64_t, uint64_t> known_;      // to its place
  std::deque<State> open_;
  std::string wrong_;
};

}  // namespace pal::test
