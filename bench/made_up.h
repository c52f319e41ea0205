// The configurations that ship, with made-up data, so that their steps need no data set and are the
// same everywhere: in the sizes that the configuration states, else of 32,000 words or ten classes.
// Benchmarks of plans record their steps here. Those that run steps take them with their own data.
#pragma once
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "train/config/config.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace pal {

inline Config with_made_up_data(const std::string& name, const std::vector<std::string>& sets) {
  const Config plain = load_config(find_config(name));
  std::vector<std::string> all{"data.synthetic=true"};
  if (const auto* pairs = std::get_if<ParallelTextConfig>(&plain.data)) {
    if (*pairs->tokenizer != "sentencepiece" && !*pairs->source_vocab_size) {
      all.insert(all.end(), {"data.source_vocab_size=32000", "data.target_vocab_size=32000"});
    }
  } else if (const auto* text = std::get_if<TextConfig>(&plain.data)) {
    if (*text->tokenizer != "sentencepiece" && !*text->vocab_size) {
      all.push_back("data.vocab_size=32000");
    }
  } else if (const auto* images = std::get_if<ImageConfig>(&plain.data)) {
    if (!images->classes->has_value()) all.push_back("data.classes=10");
  }
  all.insert(all.end(), sets.begin(), sets.end());
  std::vector<Override> overrides;
  for (const std::string& set : all) overrides.push_back(parse_set(set));
  return load_config(find_config(name), overrides);
}

// Their names, sorted.
inline std::vector<std::string> shipped_configs() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(find_config("nmt_small").parent_path())) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// f(), or a line that says why the configuration is refused; it begins with the words `row`.
template <class F> void unless_refused(const std::string& row, F&& f) {
  try {
    f();
  } catch (const UsageError& error) {
    std::printf("%s passed over: %s\n", row.c_str(), error.what());
  }
}

// The step for lengths (S, T). Where it has more than so many nodes: none, and a line that says so.
inline std::optional<Program> step_of_at_most(size_t nodes, const Task& task, const Config& config,
                                              const std::pair<int64_t, int64_t>& lengths,
                                              const std::string& row) {
  Program program = record_plan_step(task, config, lengths);
  if (program.nodes.size() <= nodes) return program;
  std::printf("%s passed over: %zu nodes\n", row.c_str(), program.nodes.size());
  return std::nullopt;
}

struct LargestStep {
  Config config;
  Program program;
};

// A configuration with its own data, and the step of its largest bucket.
inline LargestStep largest_step_of_its_data(const std::string& name,
                                            const std::vector<std::string>& sets) {
  std::vector<Override> overrides;
  for (const std::string& set : sets) overrides.push_back(parse_set(set));
  Config config = load_config(find_config(name), overrides);
  const auto task = make_task(config);
  Program program = record_plan_step(*task, config, task->bucket_lengths(task->bucket_count() - 1));
  return {std::move(config), std::move(program)};
}

// A configuration with made-up data, and the step of its largest bucket; or as above.
inline std::optional<LargestStep> largest_step(const std::string& name,
                                               const std::vector<std::string>& sets, size_t nodes,
                                               const std::string& row) {
  Config config = with_made_up_data(name, sets);
  const auto task = make_task(config);
  auto program =
      step_of_at_most(nodes, *task, config, task->bucket_lengths(task->bucket_count() - 1), row);
  if (!program) return std::nullopt;
  return LargestStep{std::move(config), std::move(*program)};
}

// The name, filled up with spaces.
inline std::string padded(std::string name, size_t width) {
  name.resize(std::max(name.size(), width), ' ');
  return name;
}

}  // namespace pal
