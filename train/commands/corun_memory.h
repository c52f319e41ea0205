// How the jobs of pal corun share the device's memory: chosen from their plans before any of them
// runs.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "memory/run/program_set.h"
#include "memory/share/corun_plan.h"
#include "train/commands/commands.h"
#include "train/commands/job.h"

namespace pal {

class CorunMemory {
 public:
  // Plans the largest step of each job, with the times of `device`. BudgetError where the mode does
  // not fit the budget: what each job needs, and what is missing.
  CorunMemory(const std::vector<std::unique_ptr<Job>>& jobs, const CorunArgs& args,
              const DeviceProfile& device);

  CorunMemory(const CorunMemory&) = delete;
  CorunMemory& operator=(const CorunMemory&) = delete;

  bool takes_turns() const { return way_.kind == CorunWay::Kind::turns; }
  // A job's place in the pool.
  PoolShare share(size_t job) const { return {pool_, JobId(job)}; }
  // For people: what is shared, and what it is predicted to gain over turns.
  std::vector<std::string> lines() const;
  nlohmann::json json() const;
  // How long a job has waited.
  std::string waits_line(size_t job) const;

 private:
  std::vector<StepShape> shapes_;
  std::string device_;  // whose times
  int64_t budget_ = 0, own_bytes_ = 0;
  CorunWay way_;
  std::vector<double> turns_;  // rates in turns
  std::shared_ptr<SharedPool> pool_;
};

}  // namespace pal
