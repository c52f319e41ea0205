// From the environment, as the XDG Base Directory Specification says.
#include "train/run_files/cache_folder.h"

#include <cstdlib>

namespace pal {

std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) {
    return std::filesystem::path(cache) / "palimpsest";
  }
  if (const char* home = std::getenv("HOME"); home && *home) {
    return std::filesystem::path(home) / ".cache" / "palimpsest";
  }
  return {};
}

}  // namespace pal
