// How often a text has a part, for the tests of pages.
#pragma once

#include <string>

namespace pal {

inline size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace pal
