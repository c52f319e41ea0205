// What pal corun says of the jobs' memory: lines of the log, JSON, and a page.
#include "core/error.h"
#include "core/text.h"
#include "train/commands/corun_memory.h"
#include "train/config/wording.h"

namespace pal {

std::vector<std::string> CorunMemory::lines() const {
  const std::lock_guard lock(mutex_);
  if (!pool_) {
    const Ids all = present(false);
    return {"memory " + format_bytes(own_bytes(all)) + " of " + format_bytes(budget_) + ": " +
            needs_of(all)};
  }
  const CorunWay& way = use_.way;
  const int64_t own = own_bytes(use_.jobs);
  std::string head = "memory " + format_bytes(own + use_.bytes) + " of " + format_bytes(budget_) +
                     ": " + format_bytes(own) + " the jobs' own, a pool of " +
                     format_bytes(use_.bytes) + " (" + to_string(way.kind);
  if (way.kind == CorunWay::Kind::circle) {
    const auto& jobs = way.circle.jobs;
    for (size_t j = 0; j < jobs.size(); ++j) {
      head += (j == 0 ? ": " : " to ") + std::to_string(jobs[j].steps);
    }
    head += " steps in " + fixed(double(way.circle.period) * 1e-6, 1) + " ms";
    for (size_t j = 1; j < jobs.size(); ++j) {
      head += ", job " + std::to_string(j + 1) + " " + fixed(double(jobs[j].begins) * 1e-6, 1) +
              " ms later";
    }
  }
  if (way.has_local) head += ", workspaces and gradient maps apart";
  if (!way.program_waits.empty()) {
    head += ", with other programs of theirs:";
    for (const JobOnCircle& job : way.circle.jobs) head += " " + std::to_string(job.others.size());
  }
  for (size_t g = 0; g < way.groups.size(); ++g) {
    head += (g == 0 ? ": " : "; ") + std::string("job ");
    for (size_t i = 0; i < way.members[g].size(); ++i) {
      head += (i == 0 ? "" : " with ") + std::to_string(use_.jobs[size_t(way.members[g][i])] + 1);
    }
    head += " in " + format_bytes(way.groups[g].pool_bytes) + " (" + to_string(way.groups[g].kind) +
            ")";
  }
  if (way.first.job >= 0)
    head += ", job " + std::to_string(use_.jobs[size_t(way.first.job)] + 1) + "'s kernels first";
  if (way.first.light) head += ", light kernels first";
  std::vector<std::string> lines{head + ")"};
  std::string rates = "predicted (" + device_.name + "): " + fixed(way.total, 2) +
                      " times the steps of taking turns;";
  for (size_t j = 0; j < way.rate.size(); ++j) {
    rates += (j == 0 ? " " : ", ") + std::string("job ") + std::to_string(j + 1) + " at " +
             fixed(100 * way.rate[j], 0) + " % of its speed alone (in turns " +
             fixed(100 * turns_[j], 0) + " %)";
  }
  lines.push_back(rates);
  return lines;
}

nlohmann::json CorunMemory::json() const {
  const std::lock_guard lock(mutex_);
  if (!pool_) return {{"way", "unshared"}, {"bytes", own_bytes(present(false))}};
  const CorunWay& way = use_.way;
  const int64_t own = own_bytes(use_.jobs);
  nlohmann::json out{{"way", to_string(way.kind)},
                     {"bytes", own + use_.bytes},
                     {"own_bytes", own},
                     {"pool_bytes", use_.bytes},
                     {"profile", device_.name},
                     {"predicted", {{"total", way.total}, {"rates", way.rate}}},
                     {"turns", {{"total", 1}, {"rates", turns_}}}};
  if (way.first.job >= 0) out["first"] = use_.jobs[size_t(way.first.job)] + 1;
  if (way.first.light) out["first"] = "light";
  for (size_t g = 0; g < way.groups.size(); ++g) {
    nlohmann::json group{{"way", to_string(way.groups[g].kind)},
                         {"pool_bytes", way.groups[g].pool_bytes}};
    for (const JobId j : way.members[g]) group["jobs"].push_back(use_.jobs[size_t(j)] + 1);
    out["groups"].push_back(std::move(group));
  }
  if (way.kind == CorunWay::Kind::circle) {
    out["period_ms"] = double(way.circle.period) * 1e-6;
    for (const JobOnCircle& job : way.circle.jobs) {
      out["pattern"].push_back({{"steps", job.steps},
                                {"begins_ms", double(job.begins) * 1e-6},
                                {"programs", job.programs()}});
    }
  }
  return out;
}

CorunPage CorunMemory::page() const {
  if (!pool_) throw UsageError("--html: with --mode unshared there is no pool to draw");
  CorunPage page;
  page.lines = lines();
  const std::lock_guard lock(mutex_);
  const CorunWay& way = use_.way;
  page.pool_bytes = use_.bytes;
  page.circle = way.circle;
  // In turns one step follows the other; beside each other a step of each begins at once.
  const bool turns = way.kind == CorunWay::Kind::turns;
  for (const JobId j : use_.jobs) {
    const Member& m = members_[size_t(j)];
    page.names.push_back(m.job->args().name);
    page.title += (page.title.empty() ? "" : ", ") + page.names.back();
    page.offset.push_back(pool_->offset_of(j, m.step));
    if (way.kind == CorunWay::Kind::circle) continue;
    const double rate = turns ? 1 : std::max(way.rate[page.circle.jobs.size()], 1e-3);
    const auto lasts = std::max(m.step.ticks(), int64_t(double(m.step.ticks()) / rate));
    page.circle.jobs.push_back({&m.step, 1, turns ? page.circle.period : 0, lasts});
    page.circle.period = turns ? page.circle.period + lasts : std::max(page.circle.period, lasts);
  }
  page.tiles = {{format_bytes(budget_), "the budget"},
                {format_bytes(own_bytes(use_.jobs)), "the jobs' own"},
                {format_bytes(use_.bytes), "the pool, which they share"},
                {to_string(way.kind), "how"},
                {fixed(way.total, 2) + " times", "the steps of turns, predicted"}};
  return page;
}

std::string CorunMemory::waits_line(size_t job) const {
  if (!pool_) return {};
  const PoolStats stats = pool_->stats(JobId(job));
  std::string line = "waited " + fixed(stats.waited_seconds, 1) + " s for the others, " +
                     std::to_string(stats.waits) + " times";
  if (args_.scheduler == CorunScheduler::zico) {
    line += "; its steps were begun " + fixed(stats.shifted_seconds, 1) + " s later in all" +
            (stats.gave_up ? ", in turns in the end: what was seen was wrong too often" : "");
  }
  return line;
}

}  // namespace pal
