// pal plan where plans are chosen from a budget: its searches, and what their answers cost.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "train/commands/commands.h"
#include "train/loop/max_fit.h"
#include "train/loop/recordings.h"
#include "train/report/plan_facts.h"

namespace pal {

struct ChosenFit {
  MaxFit fit;
  std::optional<AnswerCost> cost;  // none: nothing fits
  std::string words;               // "; it costs +4.2 % (echo 9 %)"
};

// The largest value of `key` (train/loop/max_fit.h) with which some plan keeps to the bytes, and
// costs no more than args.max_overhead.
ChosenFit search_chosen(const Task& task, const PlanArgs& args, const std::string& key,
                        std::pair<int64_t, int64_t> bucket, const AutoPlanner& planner,
                        KernelCache& kernels, int64_t capacity);

// "5%" as 0.05. UsageError, which names the flag.
double parse_max_overhead(const std::string& text);

}  // namespace pal
