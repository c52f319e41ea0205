// Tries what could help, and names what does.
#include "memory/budget.h"

#include <string>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "memory/plan/report.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

struct Change {
  std::string text;
  std::function<void(CompileOptions&)> make;
};

// What the options leave untried, the most effective first.
std::vector<Change> changes_to(const CompileOptions& options) {
  std::vector<Change> changes;
  for (Recompute method : {Recompute::echo, Recompute::sqrt, Recompute::mirror}) {
    if (options.recompute == method) continue;
    changes.push_back({std::string("memory.recompute: ") + to_string(method),
                       [method](CompileOptions& o) { o.recompute = method; }});
  }
  // The exact forms that every run can rely on. Not sparse maps: a run begins without them, and
  // falls back on the plan that has none, so that this plan has to keep to the budget.
  if (!options.encode.binarize || !options.encode.dropout_bits) {
    const std::string with = options.encode.any() ? "memory.encode with " : "memory.encode: ";
    changes.push_back({with + "[binarize, dropout_bits]", [](CompileOptions& o) {
                         o.encode.binarize = o.encode.dropout_bits = true;
                       }});
  }
  if (!options.inplace) {
    changes.push_back({"memory.inplace: true", [](CompileOptions& o) { o.inplace = true; }});
  }
  if (options.schedule == Schedule::program) {
    changes.push_back(
        {"memory.schedule: lifetime", [](CompileOptions& o) { o.schedule = Schedule::lifetime; }});
  }
  if (options.dynamic.manager == Manager::fixed) {
    if (options.swap.method != Swap::planned) {
      changes.push_back(
          {"memory.swap: planned", [](CompileOptions& o) { o.swap.method = Swap::planned; }});
    }
    changes.push_back({"memory.manager: delta", [](CompileOptions& o) {
                         o.dynamic.manager = Manager::delta, o.swap.method = Swap::none;
                       }});
  }
  return changes;
}

// The options that one change each, or else all that help together, bring to the budget.
std::string what_would_help(int64_t now, const CompileOptions& options, const NeedOf& need_of,
                            double seconds) {
  const auto start = Clock::now();
  CompileOptions together = options;
  together.must_fit = false, together.profile.reset();
  int64_t least = now;
  std::string fits, all;
  bool recomputes = false, moves = false;  // one way of each at a time: the first that helps
  for (const Change& change : changes_to(options)) {
    if (seconds_since(start) > seconds) break;
    CompileOptions alone = options;
    alone.must_fit = false, alone.profile.reset();
    change.make(alone);
    const int64_t bytes = need_of(alone);
    if (bytes <= *options.budget) {
      fits += (fits.empty() ? "" : ", ") + change.text + " (" + format_bytes(bytes) + ": fits)";
    }
    const bool method = alone.recompute != options.recompute;
    const bool way = alone.swap.method != options.swap.method ||
                     alone.dynamic.manager != options.dynamic.manager;
    if (bytes >= now || (method && recomputes) || (way && moves)) continue;
    recomputes |= method, moves |= way;
    change.make(together);
    all += (all.empty() ? "" : " with ") + change.text;
    least = bytes;
  }
  if (!fits.empty()) return "; what would help: " + fits;
  if (all.empty()) return "; no other memory option that was tried needs less";
  if (all.find(" with ") != std::string::npos) least = need_of(together);
  if (least <= *options.budget) {
    return "; what would help: " + all + " (" + format_bytes(least) + ": fits)";
  }
  return "; " + all + " would need " + format_bytes(least) + ", still " +
         format_bytes(least - *options.budget) + " over";
}

}  // namespace

void check_budget(const Compiled& c, const CompileOptions& options, const NeedOf& need_of,
                  double seconds) {
  const Region& device = c.plan.device();
  if (!options.budget || !options.must_fit || device.bytes <= *options.budget) return;
  std::string what = "the step needs " + format_bytes(device.bytes) + ", " +
                     format_bytes(device.bytes - *options.budget) + " over the budget of " +
                     format_bytes(*options.budget);
  if (device.transients_begin() > *options.budget) {
    throw BudgetError(what + "; state and inputs alone are " +
                      format_bytes(device.transients_begin()) +
                      ": only a smaller model, another optimizer, a smaller batch or a larger "
                      "memory.budget would help");
  }
  const Peak peak = peak_of(c.storages, lifetimes_of(c.program, c.storages));
  what += "; " + largest_at_peak(c.program, c.storages, peak);
  throw BudgetError(what + what_would_help(device.bytes, options, need_of, seconds));
}

}  // namespace pal
