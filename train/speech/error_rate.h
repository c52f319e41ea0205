// Word and character error rate: the fewest substitutions, insertions and deletions that turn what
// was recognised into what was said, for each unit of what was said.
#pragma once
#include <cstdint>
#include <string_view>

namespace pal {

struct ErrorRate {
  int64_t errors = 0, units = 0;

  // In percent; of no unit at all 0, or 100 where something was recognised nevertheless.
  double percent() const;
  ErrorRate& operator+=(const ErrorRate& other);
};

// Words are what white space separates.
ErrorRate word_errors(std::string_view hypothesis, std::string_view reference);
// Code points; white space is one space, and counts.
ErrorRate character_errors(std::string_view hypothesis, std::string_view reference);

}  // namespace pal
