// The bytes that a budget leaves for the slab, and the search for one that is enough.
#include "memory/dynamic/manage.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;
constexpr double kExact = 0.01;  // of a budget: how closely the least that works is found

int64_t fixed_of(const StepFacts& facts, const StateLayout& layout) {
  const Plan fixed = plan_of_fixed(facts.program, facts.storages, layout);
  return fixed.device().transients_begin() + facts.fixed_bytes;
}

int64_t host_bytes_of(const StepFacts& facts, const StateLayout& layout,
                      std::optional<int64_t> host_budget) {
  const Plan fixed = plan_of_fixed(facts.program, facts.storages, layout);
  if (!host_budget) return kUnlimited;
  return std::max<int64_t>(*host_budget - fixed.host().transients_begin(), 0);
}

bool works(const StepFacts& facts, const DynamicOptions& options, int64_t slab_bytes,
           int64_t host_bytes) {
  try {
    decide(facts, options, slab_bytes, host_bytes);
    return true;
  } catch (const BudgetError&) {
    return false;
  }
}

}  // namespace

int64_t least_managed(const StepFacts& facts, const StateLayout& layout) {
  return fixed_of(facts, layout) + facts.largest_bytes;
}

bool is_managed_within(const StepFacts& facts, const StateLayout& layout,
                       const DynamicOptions& options, int64_t budget,
                       std::optional<int64_t> host_budget) {
  return budget >= least_managed(facts, layout) &&
         works(facts, options, budget - fixed_of(facts, layout),
               host_bytes_of(facts, layout, host_budget));
}

std::optional<int64_t> least_working(const StepFacts& facts, const StateLayout& layout,
                                     const DynamicOptions& options,
                                     std::optional<int64_t> host_budget) {
  const int64_t fixed = fixed_of(facts, layout);
  const int64_t host_bytes = host_bytes_of(facts, layout, host_budget);
  int64_t all = 0;
  for (int64_t bytes : facts.bytes) all += bytes;
  int64_t low = facts.largest_bytes, high = low;
  while (!works(facts, options, high, host_bytes)) {
    if (high >= 2 * all) return {};
    low = high, high += high / 4 + kAlignment;
  }
  while (high - low > int64_t(kExact * double(fixed + high))) {
    const int64_t middle = low + (high - low) / 2;
    (works(facts, options, middle, host_bytes) ? high : low) = middle;
  }
  return fixed + high;
}

Managed manage(const StepFacts& facts, const StateLayout& layout, const DynamicOptions& options,
               int64_t budget, std::optional<int64_t> host_budget) {
  const int64_t fixed = fixed_of(facts, layout), least = fixed + facts.largest_bytes;
  if (budget < least) {
    std::string what = "memory.budget: " + format_bytes(budget) + " is " +
                       format_bytes(least - budget) +
                       " short of what state, two slots of inputs, "
                       "outputs and the largest node need (" +
                       format_bytes(least) + ")";
    if (facts.largest != kNone) {
      const Node& node = facts.program.node(facts.largest);
      what += "; that is [" + std::string(node.op->name) + "] " + facts.program.scope_of(node) +
              " with " + format_bytes(facts.largest_bytes);
    }
    throw BudgetError(what + "; a smaller batch or model needs less");
  }
  try {
    Decisions decisions =
        decide(facts, options, budget - fixed, host_bytes_of(facts, layout, host_budget));
    return {lowered(facts, decisions, layout), decisions.stats};
  } catch (const BudgetError& error) {
    const auto enough = least_working(facts, layout, options, host_budget);
    throw BudgetError(
        std::string(error.what()) + "; " +
        (enough ? "with memory.budget: " + format_bytes(*enough) + " it works (simulated)"
                : "no memory.budget would do, as simulated") +
        (host_budget ? "; so might a larger memory.host_budget" : ""));
  }
}

}  // namespace pal
