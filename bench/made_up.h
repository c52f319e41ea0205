// Configurations whose data is made up, so that their steps need no data set.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "train/config/config.h"

namespace pal {

inline Config with_made_up_data(const std::string& name, const std::vector<std::string>& sets) {
  const Config plain = load_config(find_config(name));
  std::vector<std::string> all{"data.synthetic=true"};
  if (std::holds_alternative<ParallelTextConfig>(plain.data)) {
    const bool iwslt = name.find("iwslt") != std::string::npos;
    all.push_back(std::string("data.source_vocab_size=") + (iwslt ? "17188" : "32000"));
    all.push_back(std::string("data.target_vocab_size=") + (iwslt ? "7706" : "32000"));
  } else if (std::holds_alternative<TextConfig>(plain.data)) {
    all.push_back("data.vocab_size=32000");
  } else if (const auto* images = std::get_if<ImageConfig>(&plain.data)) {
    if (!images->classes->has_value()) all.push_back("data.classes=10");
  }
  all.insert(all.end(), sets.begin(), sets.end());
  std::vector<Override> overrides;
  for (const std::string& set : all) overrides.push_back(parse_set(set));
  return load_config(find_config(name), overrides);
}

}  // namespace pal
