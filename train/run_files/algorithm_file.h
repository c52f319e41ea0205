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
  // In order of precedence; empty paths are left out. A file is made when something is kept.
  explicit AlgorithmFile(std::vector<std::filesystem::path> files);
  // cache_folder()/algorithms.txt
  static std::filesystem::path of_machine();

  std::optional<std::string> find(const std::string& key) override;
  // That nothing can be written is told of once, and no error. Neither may hold a line's end, and a
  // choice no space.
  std::string keep(const std::string& key, const std::string& choice) override;

 private:
  using Choices = std::map<std::string, std::string>;  // by key
  std::string keep_in(const std::filesystem::path& file, const std::string& key,
                      const std::string& choice);
  void read(const std::filesystem::path& file, const std::string& text);
  void tell_once(const std::string& what);

  std::mutex mutex_;
  std::vector<std::filesystem::path> files_;
  std::map<std::filesystem::path, Choices> choices_;
  bool told_ = false;
};

}  // namespace pal
