// The configurations that ship, with made-up data, so that their steps need no data set and are the
// same everywhere: in the sizes that the configuration states, else of 32,000 words or ten classes.
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "train/config/config.h"

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

}  // namespace pal
