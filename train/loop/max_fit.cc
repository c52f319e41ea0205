// Searching by recording and bounding one step a value.
#include "train/loop/max_fit.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>

#include "core/clock.h"
#include "core/error.h"
#include "memory/compile.h"
#include "train/loop/run_options.h"
#include "train/loop/sparse_steps.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

// The option's value and limits. UsageError when it is no integer option of the model, or the
// batch.
FitRange range_of(Config config, const std::string& key, std::pair<int64_t, int64_t> bucket) {
  if (key == kLengthKey) return {.start = bucket.first, .least = 1, .most = 1'000'000};
  std::vector<std::string> known;
  for (auto& [name, section] : config.sections()) {
    for (const AnyOption* option : section->options()) {
      const std::string full = name + "." + option->name;
      const OptionValue value = option->value();
      const bool integer = std::holds_alternative<int64_t>(value) ||
                           std::holds_alternative<std::optional<int64_t>>(value);
      if (integer && (name == "model" || full == kBatchKey)) known.push_back(full);
    }
  }
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    const std::string near = nearest(key, known);
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    throw UsageError("--max-depth: '" + key + "' is not an integer option of the model" +
                     (near.empty() ? "" : "; did you mean " + near + "?") + " (there are: " + list +
                     ")");
  }
  const AnyOption& option = *config.find(key);
  FitRange range{.least = 1, .most = 1'000'000'000};
  if (option.rules.min > double(range.least)) range.least = int64_t(option.rules.min);
  if (option.rules.max < double(range.most)) range.most = int64_t(option.rules.max);
  const OptionValue held = option.value();
  const auto* value = std::get_if<int64_t>(&held);
  range.start = value ? *value : std::get<std::optional<int64_t>>(held).value_or(1);
  return range;
}

// The option's value is what the configuration says, not where a search begins for want of one.
bool is_set(Config config, const std::string& key) {
  if (key == kLengthKey) return true;
  if (key == kBatchKey && config.train.batch_words->has_value()) return false;
  const OptionValue held = config.find(key)->value();
  const auto* value = std::get_if<std::optional<int64_t>>(&held);
  return !value || value->has_value();
}

Config with_value(Config config, const std::string& key, int64_t value) {
  if (key == kLengthKey) return config;
  AnyOption& option = *config.find(key);
  if (std::holds_alternative<int64_t>(option.value())) {
    option.set(value);
  } else {
    option.set(std::optional<int64_t>(value));
  }
  option.origin = "--max-" + std::string(key == kBatchKey ? "batch" : "depth");
  // Where words make a batch, sentences do from here on.
  if (key == kBatchKey) config.train.batch_words = std::optional<int64_t>();
  check_config(config);
  return config;
}

std::pair<int64_t, int64_t> with_length(std::pair<int64_t, int64_t> bucket, const std::string& key,
                                        int64_t value) {
  if (key != kLengthKey) return bucket;
  return {value, std::max<int64_t>(1, value * bucket.second / bucket.first)};
}

// What one value needs: a lower bound, or a plan.
class Prober {
 public:
  Prober(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
         const std::string& key, int64_t capacity, const std::optional<DeviceProfile>& profile = {},
         const std::optional<CompileOptions>& least = {})
      : task_(task),
        config_(config),
        bucket_(bucket),
        key_(key),
        capacity_(capacity),
        cache_(choose_device(config.device, nullptr, config.gpu)) {
    CompileOptions options = least ? *least : compile_options(config.memory);
    if (least) options.profile.reset();
    options.budget = capacity, options.must_fit = false, options.profile = profile;
    // With sparse maps the plan that a run falls back on has to fit.
    options_ = options;
    tries_ = options.encode.ssdc ? dense_options(options) : std::vector{options};
  }

  void know(int64_t value, int64_t bytes) { known_ = {value, bytes}; }

  int64_t least(int64_t value) {
    if (known_ && known_->first == value) return known_->second;
    Step step = passed(value);
    const int64_t bytes = step.bytes;
    if (bytes <= capacity_ && (!last_ || last_->value < value)) last_ = std::move(step);
    return bytes;
  }
  // Whether there is such a model: of residual networks, there are some depths.
  bool exists(int64_t value) const {
    try {
      const Config config = with_value(config_, key_, value);
      const auto task = task_.variant(config);
      if (key_ == kLengthKey) {
        record_plan_step(*task, config, with_length(bucket_, key_, value));
      }
    } catch (const UsageError&) {
      return false;
    }
    return true;
  }
  // Of a plan, which is not made smaller than has to be.
  int64_t planned(int64_t value) {
    if (!last_ || last_->value != value) last_ = passed(value);
    if (options_.dynamic.manager != Manager::fixed) return last_->bytes;
    const Compiled& c = last_->compiled;
    return make_plan(c.program, c.storages, last_->layout, capacity_, last_->effort).device().bytes;
  }

 private:
  struct Step {
    int64_t value = 0, bytes = 0;
    Compiled compiled;  // after the passes, without a plan
    StateLayout layout;
    PlaceEffort effort;
  };
  // By the first of the options that fits, else by the last.
  Step passed(int64_t value) {
    for (size_t i = 0;; ++i) {
      Step step{.value = value};
      Program program = record(value);
      step.layout = StateLayout(program);
      step.bytes = least_bytes(std::move(program), cache_, step.layout, tries_[i], &step.compiled);
      step.effort = tries_[i].place_effort;
      if (step.bytes <= capacity_ || i + 1 == tries_.size()) return step;
    }
  }
  Program record(int64_t value) const {
    const Config config = with_value(config_, key_, value);
    return record_plan_step(*task_.variant(config), config, with_length(bucket_, key_, value));
  }

  const Task& task_;
  const Config& config_;
  const std::pair<int64_t, int64_t> bucket_;
  const std::string key_;
  const int64_t capacity_;
  CompileOptions options_;
  std::vector<CompileOptions> tries_;
  KernelCache cache_;
  std::optional<std::pair<int64_t, int64_t>> known_;  // a value, and the least bytes that it needs
  std::optional<Step> last_;  // of the values that fit, the largest seen, or the one planned last
};

// Where to look next: between `fits` and `fails` (exclusive), either of which may lie outside of
// the range still. `seen` holds bytes by value.
int64_t next_value(const FitRange& range, int64_t fits, int64_t fails, int64_t capacity,
                   const std::map<int64_t, int64_t>& seen) {
  const bool low = fits >= range.least, high = fails <= range.most;
  double guess = 0;
  if (low && high) {
    // Bytes need not be a line.
    if (seen.size() >= 6 && seen.size() % 3 == 0) return fits + (fails - fits) / 2;
    const double a = double(seen.at(fits)), b = double(seen.at(fails));
    guess = double(fits) + std::floor((double(capacity) - a) * double(fails - fits) / (b - a));
  } else {
    double slope = range.slope;
    const int64_t at = low ? fits : fails;
    if (seen.size() >= 2) {
      auto near = seen.find(at), other = low ? std::prev(near) : std::next(near);
      slope = double(near->second - other->second) / double(near->first - other->first);
    }
    const double step = (double(capacity) - double(seen.at(at))) / slope;
    guess = slope > 0 ? double(at) + std::floor(step) : low ? 2.0 * double(at) : double(at / 2);
    // One line through two points is not believed for long.
    guess = std::clamp(guess, double(at) / 16, 16.0 * double(at));
  }
  return std::clamp(guess < double(fails) ? int64_t(guess) : fails - 1, fits + 1, fails - 1);
}

// The value nearest to `wanted` that there is between `fits` and `fails`, both exclusive.
std::optional<int64_t> nearest_there_is(int64_t wanted, int64_t fits, int64_t fails,
                                        const std::function<bool(int64_t)>& exists) {
  for (int64_t step = 0; wanted - step > fits || wanted + step < fails; ++step) {
    if (wanted - step > fits && exists(wanted - step)) return wanted - step;
    if (wanted + step < fails && exists(wanted + step)) return wanted + step;
  }
  return std::nullopt;
}

}  // namespace

Fitting search_fitting(const FitRange& range, int64_t capacity,
                       const std::function<int64_t(int64_t)>& bytes_of,
                       const std::function<bool()>& stop,
                       const std::function<bool(int64_t)>& exists) {
  std::map<int64_t, int64_t> seen;
  int64_t fits = range.least - 1, fails = range.most + 1;
  int64_t next = std::clamp(range.start, range.least, range.most);
  Fitting out;
  while (fails - fits > 1) {
    if (stop && stop()) {
      out.sure = false;
      break;
    }
    const int64_t bytes = seen[next] = bytes_of(next);
    (bytes <= capacity ? fits : fails) = next;
    if (fails - fits <= 1) break;
    next = next_value(range, fits, fails, capacity, seen);
    if (!exists) continue;
    const std::optional<int64_t> there_is = nearest_there_is(next, fits, fails, exists);
    if (!there_is) break;
    next = *there_is;
  }
  out.value = fits;
  out.probes = int(seen.size());
  if (auto at = seen.find(fits); at != seen.end()) out.bytes = at->second;
  if (auto at = seen.find(fails); at != seen.end()) out.next = fails, out.next_bytes = at->second;
  if (seen.size() >= 2) {
    auto b = seen.contains(fits) ? seen.find(fits) : seen.begin();
    auto a = b == seen.begin() ? b++ : std::prev(b);
    out.slope = double(b->second - a->second) / double(b->first - a->first);
  }
  return out;
}

MaxFit largest_fitting(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                       const std::string& key, int64_t capacity, int64_t as_it_is,
                       const std::optional<DeviceProfile>& profile) {
  const auto start = Clock::now();
  FitRange range = range_of(config, key, bucket);
  Prober prober(task, config, bucket, key, capacity, profile);
  if (as_it_is > 0 && is_set(config, key)) prober.know(range.start, as_it_is);
  auto exists = [&](int64_t v) { return prober.exists(v); };
  const Fitting bound = search_fitting(
      range, capacity, [&](int64_t v) { return prober.least(v); }, {}, exists);
  MaxFit out{.key = key, .found = bound};
  if (bound.value >= range.least) {
    // Placement may need a little more: at the bound's answer, or just below it.
    range.start = range.most = bound.value;
    range.slope = bound.slope;
    out.found = search_fitting(
        range, capacity, [&](int64_t v) { return prober.planned(v); }, {}, exists);
    out.found.probes += bound.probes;
    if (out.found.value == bound.value) {
      out.found.next = bound.next, out.found.next_bytes = bound.next_bytes;
    }
  }
  out.seconds = seconds_since(start);
  return out;
}

MaxFit largest_fitting(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                       const std::string& key, int64_t capacity, const NeedOfStep& need_of) {
  const auto start = Clock::now();
  const Prober prober(task, config, bucket, key, capacity);
  MaxFit out{.key = key};
  out.found = search_fitting(
      range_of(config, key, bucket), capacity,
      [&](int64_t value) {
        const Config own = with_value(config, key, value);
        return need_of(value, *task.variant(own), own, with_length(bucket, key, value));
      },
      {}, [&](int64_t value) { return prober.exists(value); });
  out.seconds = seconds_since(start);
  return out;
}

std::string batch_advice(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                         const std::optional<CompileOptions>& least, double seconds) {
  const auto start = Clock::now();
  if (!config.memory.budget->has_value()) return "";
  FitRange range = range_of(config, kBatchKey, bucket);
  range.most = std::max(range.least, range.start - 1);
  range.start = std::max(range.least, range.start / 2);
  // What placement may need beyond the bound is kept free.
  const int64_t capacity = (*config.memory.budget)->bytes / 100 * 99;
  std::optional<CompileOptions> options = least;
  if (options && *config.train.batch_parts > 1) {  // other batches have other values
    options->recompute = Recompute::sqrt;
    options->swap.chosen.reset();
  }
  Prober prober(task, config, bucket, kBatchKey, capacity, {}, options);
  Fitting found;
  try {
    found = search_fitting(
        range, capacity, [&](int64_t v) { return prober.least(v); },
        [&] { return seconds_since(start) > seconds; });
  } catch (const UsageError&) {
    if (!least) throw;
    return "";  // what the options name is not in the step of another batch
  }
  if (found.value < range.least) return "";
  return std::string(least ? "; planned so, " : "; as it is, ") + kBatchKey + ": " +
         std::to_string(found.value) +
         (found.sure ? " is about the largest batch that fits" : " fits") +
         " (pal plan --max-batch finds the largest)";
}

}  // namespace pal
