// The steps of Zico's six networks (Lim et al. 2021) as jobs that share a card, and what each way
// of sharing makes of them. Everything is predicted.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory/share/corun_plan.h"
#include "memory/share/demand_bound.h"
#include "memory/share/unshared.h"
#include "memory/share/zico_gate.h"
#include "train/papers/reproduce.h"

namespace pal {

// Notes of several tables.
inline constexpr const char* kHalfOfLargest =
    "Half of the largest batch that fits the card alone: the paper's text does not give its "
    "batches.";
inline constexpr const char* kPaperMeasured =
    "Everything of ours is predicted; the paper measured.";

struct ZicoNetwork {
  const char *name, *config;
  bool large;  // runs on the paper's larger card
};
// NASNet, ResNet-110, ResNet-50, GNMT, RHN, BERT.
std::span<const ZicoNetwork> zico_networks();
const ZicoNetwork& zico_network(const std::string& name);
// The V100 for large networks where `device` is the paper's other card; else `device`.
DeviceProfile zico_card(const ZicoNetwork& network, const DeviceProfile& device);

struct ZicoStep {
  StepShape shape;
  StepPages pages;
  int64_t batch = 0;
};

// Plans steps for one card, each once.
class ZicoPlanner {
 public:
  explicit ZicoPlanner(DeviceProfile device) : device_(std::move(device)) {}

  // The largest batch whose step fits `bytes`, 0: the card.
  int64_t largest_batch(const ZicoNetwork& network, int64_t bytes = 0);
  const ZicoStep& step(const ZicoNetwork& network, int64_t batch);
  // Its steps at a batch for its buckets, the longest first, no more than `most`.
  std::vector<StepShape> bucket_steps(const ZicoNetwork& network, int64_t batch, int most);
  // The largest batch that takes at most a part of the card.
  const ZicoStep& part_of_card(const ZicoNetwork& network, double part);
  // A part of the largest batch.
  const ZicoStep& part_of_batch(const ZicoNetwork& network, double part);

  const DeviceProfile& device() const { return device_; }

 private:
  DeviceProfile device_;
  std::map<std::pair<std::string, int64_t>, int64_t> largest_;
  std::map<std::pair<std::string, int64_t>, ZicoStep> steps_;
};

using ZicoJobs = std::vector<const ZicoStep*>;
std::vector<const StepShape*> shapes_of(const ZicoJobs& jobs);
std::string two_digits(double value);  // after the point

// A way that was simulated: rates relative to alone, whose sum is 1 in turns.
struct SimulatedWay {
  SimulatedRun run;
  std::string how;         // "shared", "turns", ...
  int64_t most_bytes = 0;  // 0: not counted
  double total() const { return run.total(); }
};

// As pal corun would choose. Where not even turns fit, the jobs change every minute.
SimulatedWay planned_way(const ZicoJobs& jobs, int64_t budget, const DeviceProfile& device,
                         CorunGoal goal = CorunGoal::total);
// Nothing where a job does not fit beside what is local to the others. `shift_ms`, where given: by
// how much a step is delayed, in the mean.
std::optional<SimulatedWay> zico_way(const ZicoJobs& jobs, int64_t budget,
                                     std::vector<double>* shift_ms = nullptr);
SimulatedWay minutes_way(const ZicoJobs& jobs, int64_t budget, const DeviceProfile& device);
// Each with its own memory; pages move over the link where that is more than there is.
SimulatedWay unshared_way(const ZicoJobs& jobs, int64_t capacity, const DeviceProfile& device);

// Bytes that a job holds beyond its own at a part of its step's time, 0 to 1.
int64_t live_at(const StepShape& shape, double part);
// Of all jobs at a moment of a run, own bytes included, by job.
std::vector<int64_t> held_at(const ZicoJobs& jobs, const SimulatedRun& run, double ms);

}  // namespace pal
