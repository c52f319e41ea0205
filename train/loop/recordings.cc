// Naming, planning and comparing recordings.
#include "train/loop/recordings.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

// The options that have recordings, with the values that they may take, the configured one first.
std::vector<std::pair<std::string, std::vector<std::string>>> choices_of(const Config& config) {
  std::vector<std::pair<std::string, std::vector<std::string>>> out;
  for (const auto& [name, section] : config.sections()) {
    for (const AnyOption* option : section->options()) {
      if (option->rules.recordings.empty()) continue;
      std::vector<std::string> values{yaml_text(option->value())};
      for (const std::string& value : option->rules.recordings) {
        if (value != values[0]) values.push_back(value);
      }
      out.emplace_back(name + "." + option->name, std::move(values));
    }
  }
  return out;
}

void choose(AnyOption& option, const std::string& value) {
  if (yaml_text(option.value()) == value) return;
  if (std::holds_alternative<bool>(option.value())) {
    option.set(value == "true");
  } else {
    option.set(int64_t(std::stoll(value)));
  }
  option.origin = "memory.allow";
}

// Named by the options in which they differ.
void name_apart(const Config& config, std::vector<std::pair<Recording, Program>>& recorded) {
  const auto value_in = [](Recording& recording, const std::string& key) {
    return yaml_text(recording.config.find(key)->value());
  };
  for (auto& each : recorded) each.first.name.clear();
  for (const auto& [key, values] : choices_of(config)) {
    const std::string first = value_in(recorded[0].first, key);
    if (std::all_of(recorded.begin(), recorded.end(),
                    [&, &key = key](auto& each) { return value_in(each.first, key) == first; })) {
      continue;
    }
    for (auto& [recording, program] : recorded) {
      recording.name += std::string(recording.name.empty() ? "" : ", ") + key + ": ";
      recording.name += value_in(recording, key);
    }
  }
}

// The steps of a bucket as they are recorded, without those that another is already: an option may
// change nothing of a model.
std::vector<std::pair<Recording, Program>> record_each(const Task& task, const Config& config,
                                                       std::pair<int64_t, int64_t> bucket) {
  std::vector<std::pair<Recording, Program>> out;
  for (Recording& recording : recordings_of(config)) {
    const Config& own = recording.config;
    Program step = record_plan_step(*task.variant(own), own, bucket);
    const auto is_same = [&](const auto& each) { return same_step(each.second, step); };
    if (std::any_of(out.begin(), out.end(), is_same)) continue;
    out.emplace_back(std::move(recording), std::move(step));
  }
  name_apart(config, out);
  return out;
}

}  // namespace

std::vector<Recording> recordings_of(const Config& config) {
  std::vector<Recording> all{{"", config}};
  if (!allows(config.memory, "reordered")) return all;
  for (const auto& [key, values] : choices_of(config)) {
    std::vector<Recording> more;
    for (const Recording& each : all) {
      for (const std::string& value : values) {
        Recording next{each.name + (each.name.empty() ? "" : ", ") + key + ": " + value,
                       each.config};
        choose(*next.config.find(key), value);
        try {
          check_config(next.config);
        } catch (const UsageError&) {
          continue;  // it does not combine with the rest
        }
        more.push_back(std::move(next));
      }
    }
    all = std::move(more);
  }
  if (all.size() == 1) all[0].name.clear();
  return all;
}

Config with_recording(Config config, const Config& pinned) {
  Config from = pinned;
  for (const auto& [key, values] : choices_of(config)) {
    const AnyOption* its = from.find(key);
    if (its) config.find(key)->set(its->value());
  }
  return config;
}

Config with_named(Config config, const std::string& name) {
  for (const auto& [key, values] : choices_of(config)) {
    for (const std::string& value : values) {
      if ((", " + name + ",").find(", " + key + ": " + value + ",") == std::string::npos) continue;
      choose(*config.find(key), value);
    }
  }
  return config;
}

const std::pair<Recording, Program>& FrontOfAll::of(const FrontPoint& point) const {
  for (const auto& each : programs) {
    if (each.first.name == point.recording) return each;
  }
  throw ProgramError("[auto] there is no recording " + point.recording);
}

FrontOfAll front_of_all(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                        const AutoPlanner& planner, KernelCache& kernels) {
  FrontOfAll out;
  for (auto& [recording, program] : record_each(task, config, bucket)) {
    const auto made = planner.front(program, kernels, StateLayout(program));
    if (out.programs.empty()) {
      out.made.front.floor = made->front.floor, out.made.front.plain_ms = made->front.plain_ms;
      out.made.front.alone = made->front.alone;
      out.made.cached = true;
    }
    if (made->front.floor.bytes < out.made.front.floor.bytes) {
      out.made.front.floor = made->front.floor;
    }
    out.made.cached &= made->cached, out.made.seconds += made->seconds;
    for (FrontPoint point : made->front.points) {
      point.recording = recording.name;
      out.made.front.points.push_back(std::move(point));
    }
    out.programs.emplace_back(std::move(recording), std::move(program));
  }
  out.made.front.keep_unbeaten();
  return out;
}

std::string allow_advice(const Task& task, const Config& config, std::pair<int64_t, int64_t> bucket,
                         const CompileOptions& least, KernelCache& kernels, int64_t bytes) {
  // What placement may need beyond the bytes alive is kept free.
  const int64_t enough = bytes / 100 * 99;
  std::string out;
  const auto add = [&](const char* what, const std::string& how, int64_t needs) {
    out += std::string(out.empty() ? "; memory.allow: [" : ", [") + what + "] would fit (" + how +
           ": " + format_bytes(needs) + ")";
  };
  // What is chosen by the numbers of one step's values is nothing to another.
  std::vector<CompileOptions> ways{least, least, least};
  ways[0].recompute = Recompute::sqrt, ways[1].recompute = Recompute::echo;
  for (CompileOptions& way : ways) way.budget = bytes, way.must_fit = false;
  if (!allows(config.memory, "lossy")) {
    const Program step = record_plan_step(task, config, bucket);
    for (const Dpr format : kDprFormats) {
      int64_t needs = std::numeric_limits<int64_t>::max();
      for (CompileOptions way : ways) {
        way.encode = kBits, way.encode.dpr = format;
        needs = std::min(needs, least_bytes(step, kernels, StateLayout(step), way));
      }
      if (needs > enough) continue;
      add("lossy", name_of(format), needs);
      break;
    }
  }
  if (allows(config.memory, "reordered")) return out;
  Config allowed = config;
  allowed.memory.allow = std::vector<std::string>{"reordered"};
  for (const auto& [recording, step] : record_each(task, allowed, bucket)) {
    if (recording.name.empty()) continue;
    int64_t needs = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < 2; ++i) {
      CompileOptions way = ways[i];
      way.swap.chosen.reset();
      needs = std::min(needs, least_bytes(step, kernels, StateLayout(step), way));
    }
    if (needs > enough) continue;
    add("reordered", recording.name, needs);
    break;
  }
  return out;
}

ChosenRecording choose_recording(const Task& task, const Config& config,
                                 std::pair<int64_t, int64_t> bucket, const AutoPlanner& planner,
                                 KernelCache& kernels, const FrontLimits& limits) {
  std::optional<ChosenRecording> best;
  for (auto& [recording, program] : record_each(task, config, bucket)) {
    AutoPlan plan = planner.plan(program, kernels, StateLayout(program), limits);
    const bool fits = plan.over.empty();
    const auto better = [&](const AutoPlan& than) {
      if (fits != than.over.empty()) return fits;
      if (fits) return plan.step.time->step_ms < than.step.time->step_ms;
      return plan.step.plan.device().bytes < than.step.plan.device().bytes;
    };
    if (!best || better(best->plan)) best = ChosenRecording{std::move(recording), std::move(plan)};
  }
  return std::move(*best);
}

}  // namespace pal
