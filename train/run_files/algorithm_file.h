// Algorithms that were chosen by timing, in files: the run's own, so that it goes on with the same
// sums, and the machine's, which new runs begin with. What was written first holds, whoever asks.
#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/algorithm_choices.h"

namespace pal {

// Text, a choice a line: "<sum of the rest, 16 hexadecimal digits> <choice> <key>". A line whose
// sum is another's, as one that was written to half, is passed over and told of once. Several
// processes may read and add at once. Thread-safe.
class AlgorithmFile final : public AlgorithmChoices {
 public:
  // The run's file goes before the machine's; an empty path is left out. A file is made when
  // something is kept. `alone`: nobody else works on the device, so that times mean something.
  AlgorithmFile(const std::filesystem::path& run, const std::filesystem::path& machine,
                bool alone = true);
  // cache_folder()/algorithms.txt
  static std::filesystem::path of_machine();

  std::optional<std::string> find(const std::string& key) override;
  // What was not measured is kept for the run alone. That nothing can be written is told of once,
  // and no error. Neither may hold a line's end, and a choice no space.
  std::string keep(const std::string& key, const std::string& choice, bool measured) override;
  bool may_measure() const override { return alone_; }

 private:
  using Choices = std::map<std::string, std::string>;  // by key
  std::string keep_in(const std::filesystem::path& file, const std::string& key,
                      const std::string& choice);
  void read(const std::filesystem::path& file, const std::string& text);
  void tell_once(const std::string& what);

  std::mutex mutex_;
  std::filesystem::path run_;
  std::vector<std::filesystem::path> files_;  // in order of precedence
  const bool alone_;
  std::map<std::filesystem::path, Choices> choices_;
  bool told_ = false;
};

}  // namespace pal
