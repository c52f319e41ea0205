// The largest batch, or the deepest model, whose training step fits a number of bytes.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "core/program.h"
#include "memory/compiled.h"
#include "memory/price/predict.h"
#include "train/config/config.h"
#include "train/loop/task.h"

namespace pal {

inline constexpr const char* kBatchKey = "train.batch_size";

struct FitRange {
  int64_t start = 1, least = 1, most = 1;  // values; the search begins at `start`
  double slope = 0;                        // bytes that one more costs; 0: not known
};
struct Fitting {
  int64_t value = 0;  // least - 1: nothing fits
  int64_t bytes = 0;  // with it
  int64_t next = 0;   // the next value there is, and what it needs; 0 bytes: not tried (`value`
  int64_t next_bytes = 0;  // is the most there is)
  double slope = 0;        // bytes that one more costs around there
  int probes = 0;
  bool sure = true;  // the next does not fit, or is more than allowed; false: time ran out
};

// The largest value for which bytes_of(value) <= capacity, if bytes rise with it: doubles until
// something does not fit, then closes in by interpolation and bisection, until the value fits and
// the next one does not. Gives up when `stop` says so. `exists`: which values there are,
// range.start among them (all, where it is not given).
Fitting search_fitting(const FitRange& range, int64_t capacity,
                       const std::function<int64_t(int64_t)>& bytes_of,
                       const std::function<bool()>& stop = {},
                       const std::function<bool(int64_t)>& exists = {});

struct MaxFit {
  std::string key;
  Fitting found;
  double seconds = 0;
};

// The largest value of an integer option with which the step fits, all else as configured. `key`
// is kBatchKey or an option of the model (UsageError otherwise). The search compares lower bounds
// and the answer is placed. Words per batch are replaced by train.batch_size. `as_it_is`: the least
// bytes of the step as configured, where they are known; 0: not. `profile`: of the device whose
// times decide what is copied and made again; none: as a run decides.
MaxFit largest_fitting(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                       const std::string& key, int64_t capacity, int64_t as_it_is = 0,
                       const std::optional<DeviceProfile>& profile = {});

// Likewise, where it is asked of each step what it needs: of its task, options and lengths.
// kLengthKey: the source length, with the target length in the bucket's proportion.
inline constexpr const char* kLengthKey = "length";
using NeedOfStep = std::function<int64_t(int64_t value, const Task& task, const Config& config,
                                         std::pair<int64_t, int64_t> bucket)>;
MaxFit largest_fitting(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                       const std::string& key, int64_t capacity, const NeedOfStep& need_of);

// "; the largest batch that fits is about 48 (...)" for a BudgetError's end, found in about
// `seconds`; empty when memory.budget is not set, or nothing was found in that time. `least`: the
// options that a batch is planned with; none: the configuration's.
std::string batch_advice(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                         const std::optional<CompileOptions>& least = {}, double seconds = 2);

}  // namespace pal
