// Numbers as text.
#include "core/text.h"

#include <charconv>

namespace pal {

std::string print_float(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

}  // namespace pal
