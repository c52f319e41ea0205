// One plan for each size.
#include "train/loop/choose_bucket.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory/compile.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/loop/sums_over_ranks.h"

namespace pal {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kSizes[] = {65536 * kKiB, 16384 * kKiB, 4096 * kKiB,
                              1024 * kKiB,  256 * kKiB,   64 * kKiB};

std::string as_option(int64_t bytes) { return std::to_string(bytes / kKiB) + "KiB"; }

struct Choice {
  int64_t size, bytes;
  double ms;
};
// The step with buckets of each size; of sizes that make the same exchanges, the largest.
std::vector<Choice> steps_of_sizes(const Task& task, const Config& config,
                                   std::pair<int64_t, int64_t> lengths, KernelCache& kernels,
                                   const CompileOptions& options) {
  std::vector<Choice> out;
  std::string known;  // what the last size made of the exchanges
  for (const int64_t size : kSizes) {
    Config each = config;
    each.train.bucket = as_option(size);
    Program step = record_plan_step(task, each, lengths);
    const std::string exchanges = exchanges_of(step);
    if (std::exchange(known, exchanges) == exchanges) continue;
    const StateLayout layout(step);
    const Compiled made = compile(std::move(step), kernels, layout, options);
    out.push_back({size, made.plan.device().bytes, made.time->step_ms});
  }
  return out;
}

}  // namespace

int64_t choose_bucket(const Task& task, const Config& config, std::pair<int64_t, int64_t> lengths,
                      KernelCache& kernels, CompileOptions options) {
  if (!options.exchange_device) return bucket_bytes(config.train);
  options.profile = options.exchange_device, options.must_fit = false;
  // The budget's plan is not known yet: the step as it is recorded decides, by its time alone.
  if (chooses_plan(config.memory)) options.budget = {};
  const auto over = [&](const Choice& c) {
    return options.budget ? std::max<int64_t>(0, c.bytes - *options.budget) : 0;
  };
  const auto best = [&] {
    std::optional<Choice> out;
    for (const Choice& now : steps_of_sizes(task, config, lengths, kernels, options)) {
      if (!out || over(now) < over(*out) || (over(now) == over(*out) && now.ms < out->ms)) {
        out = now;
      }
    }
    return *out;
  };
  const PlaceEffort effort = std::exchange(options.place_effort, {.nodes = 0});
  const Choice quick = best();
  if (over(quick) == 0) return quick.size;
  options.place_effort = effort;  // a search for places may make a step fit
  return best().size;
}

Config with_bucket(Config config, const Task& task, std::pair<int64_t, int64_t> lengths,
                   KernelCache& kernels, const CompileOptions& options, Group* group) {
  if (config.ranks == 1 || *config.train.bucket != "auto") return config;
  int64_t size = choose_bucket(task, config, lengths, kernels, options);
  if (group) size = share_among(*group, size)[0];
  config.train.bucket = as_option(size);
  return config;
}

}  // namespace pal
