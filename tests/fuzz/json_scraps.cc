// Signs of JSON, and numbers at the ends of their types.
#include "tests/fuzz/fuzz.h"

namespace pal {

std::vector<std::string> json_scraps(std::vector<std::string> own) {
  for (const char* each : {"{", "}", "[", "]", ",", ":", "0", "-1", "1e300", "1e-320",
                           "9223372036854775807", "18446744073709551615", "18446744073709551616",
                           "null", "true", "false", "\\u0000", "\\ud800", "[[[[[[[["}) {
    own.emplace_back(each);
  }
  return own;
}

}  // namespace pal
