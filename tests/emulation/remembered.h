// Choices of algorithms that tests look at.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "core/algorithm_choices.h"

namespace pal::test {

// Those that are remembered.
class Remembered final : public AlgorithmChoices {
 public:
  std::optional<std::string> find(const std::string& key) override {
    const auto found = choices.find(key);
    return found == choices.end() ? std::nullopt : std::optional(found->second);
  }
  std::string keep(const std::string& key, const std::string& choice, bool measured) override {
    any_measured |= measured;
    return choices.emplace(key, choice).first->second;
  }
  bool may_measure() const override { return alone; }
  bool alone = true, any_measured = false;
  std::map<std::string, std::string> choices;
};

}  // namespace pal::test
