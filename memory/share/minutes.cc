// Turn by turn: what moves, then whole steps.
#include "memory/share/minutes.h"

#include <algorithm>

#include "core/error.h"

namespace pal {
namespace {

struct Turns {
  const std::vector<const StepShape*>& jobs;
  const MinutesOptions& options;
  std::vector<char> here = std::vector<char>(jobs.size(), 0);  // its own bytes are on the device
  std::vector<char> begun =
      std::vector<char>(jobs.size(), 0);  // it has bytes that are worth moving

  // Bytes that move before the job's turn. Who has waited longest leaves last: it is next.
  int64_t make_room(size_t job) {
    const size_t n = jobs.size();
    int64_t held = jobs[job]->alone_bytes, moved = 0;
    for (size_t j = 0; j < n; ++j) held += j != job && here[j] ? jobs[j]->own_bytes : 0;
    for (size_t back = 1; back < n && held > options.budget; ++back) {
      const size_t j = (job + n - back) % n;
      if (!here[j]) continue;
      here[j] = false, held -= jobs[j]->own_bytes, moved += jobs[j]->own_bytes;
    }
    if (held > options.budget) {
      throw ProgramError("[share] " + jobs[job]->name + " needs " + std::to_string(held) +
                         " bytes alone, " + std::to_string(held - options.budget) +
                         " more than there are");
    }
    if (!here[job] && begun[job]) moved += jobs[job]->own_bytes;
    here[job] = begun[job] = true;
    return moved;
  }
};

}  // namespace

SimulatedRun simulate_minutes(const std::vector<const StepShape*>& jobs,
                              const MinutesOptions& options, double ms) {
  SimulatedRun out;
  out.rate.resize(jobs.size()), out.waited_ms.resize(jobs.size()), out.steps.resize(jobs.size());
  Turns turns{jobs, options};
  const double warm = ms / 4;
  double now = 0;
  // The part of [begin, end) that counts.
  const auto counted = [&](double begin, double end) {
    return std::max(0.0, std::min(end, ms) - std::max(begin, warm));
  };
  for (size_t job = 0; now < ms; job = (job + 1) % jobs.size()) {
    const int64_t moved = turns.make_room(job);
    if (moved > 0 && options.link <= 0) throw ProgramError("[share] there is no link");
    if (moved > 0) now += 1e3 * double(moved) / options.link;
    const double until = now + options.slice_ms, step = jobs[job]->ms();
    for (bool first = true; now < ms && (first || now < until); first = false, now += step) {
      out.rate[job] += counted(now, now + step);
      if (now + step <= ms) out.steps[job].push_back({now, now + step});
    }
  }
  out.ms = ms;
  for (size_t j = 0; j < jobs.size(); ++j) {
    double ran = 0;
    for (const SimulatedSpan& s : out.steps[j]) ran += s.end_ms - s.begin_ms;
    out.waited_ms[j] = ms - ran;
    out.rate[j] /= ms - warm;
  }
  return out;
}

}  // namespace pal
