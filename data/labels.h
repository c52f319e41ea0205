// The symbols that a speech recogniser writes with, one code point each; number 0 is CTC's blank.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text.h"

namespace pal {

class Labels {
 public:
  static constexpr int32_t kBlank = 0;

  // The usual 28 of English: apostrophe, a to z, space.
  Labels();
  // A symbol a line, without the blank; a line of one space is the space. UsageError: a line that
  // is not one symbol, or comes twice.
  static Labels load(const CorpusFile& file);
  void save(const std::string& path) const;

  bool has_space() const;
  int32_t size() const { return static_cast<int32_t>(symbols_.size()) + 1; }  // the blank counts
  // A transcript with white space as single spaces, none at the ends, and in lower case if asked.
  // None when it holds what is no symbol, which `unknown` then is.
  std::optional<std::vector<int32_t>> encode(std::string_view transcript, bool lowercase,
                                             std::string* unknown = nullptr) const;
  std::string decode(std::span<const int32_t> ids) const;
  bool operator==(const Labels&) const = default;

 private:
  std::vector<std::string> symbols_;  // number i + 1
};

// Two labels in a row that are equal need a blank between them: the fewest steps that spell
// `labels`.
int64_t least_steps(std::span<const int32_t> labels);

}  // namespace pal
