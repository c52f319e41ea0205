// memory.allow: [reordered]: a model may be recorded in several ways that compute the same but for
// the order of sums (fused cells, a loss in chunks, parts of the batch). Which one is fastest
// within a budget depends on the plans of each.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "train/loop/auto_plan.h"
#include "train/loop/task.h"

namespace pal {

struct Recording {
  std::string name = {};  // "model.fused: true, model.loss_chunks: 8"; "" where there is one alone
  Config config;
};

// Those that memory.allow admits, the configured one first. Each is named by all options that have
// recordings; of those that differ for a model, below, by the options in which they do.
std::vector<Recording> recordings_of(const Config& config);
// The configuration with what the name says, of a recording of this configuration.
Config with_named(Config config, const std::string& name);
// The same options with the recording of `pinned`, a run's own configuration.
Config with_recording(Config config, const Config& pinned);

// The front of all recordings of a bucket's step: what none of them beats. Their programs, by name.
struct FrontOfAll {
  MadeFront made;
  std::vector<std::pair<Recording, Program>> programs;  // in the order of recordings_of()

  const std::pair<Recording, Program>& of(const FrontPoint& point) const;
};
FrontOfAll front_of_all(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                        const AutoPlanner& planner, KernelCache& kernels);

// The recording whose plan of the bucket's step is predicted to be fastest within the limits, of
// equals the first; where none keeps to them, that of the fewest bytes. And that plan.
struct ChosenRecording {
  Recording recording;
  AutoPlan plan;
};
ChosenRecording choose_recording(const Task& task, const Config& config,
                                 std::pair<int64_t, int64_t> bucket, const AutoPlanner& planner,
                                 KernelCache& kernels, const FrontLimits& limits);

// "; memory.allow: [lossy] would fit (fp8: 17.1 MB)" for a BudgetError's end: what is not allowed
// and would keep to the bytes, with what else `least` does. "" where nothing was found.
std::string allow_advice(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                         const CompileOptions& least, KernelCache& kernels, int64_t bytes);

}  // namespace pal
