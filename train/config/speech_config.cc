// What the options of speech need beyond their types.
#include "train/config/speech_config.h"

#include <cstdio>

namespace pal {

Extents parse_extents(const std::string& text) {
  long long frames = 0, bins = 0;
  int end = -1;
  std::sscanf(text.c_str(), "%5lldx%5lld%n", &frames, &bins, &end);
  if (end != static_cast<int>(text.size()) || frames < 1 || bins < 1) return {};
  return {frames, bins};
}

}  // namespace pal
