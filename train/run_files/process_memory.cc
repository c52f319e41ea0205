// Reading /proc/self/status.
#include "train/run_files/process_memory.h"

#include <fstream>
#include <string>

namespace pal {

std::optional<int64_t> process_peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kibibytes = 0;
    if (key == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return {};
}

}  // namespace pal
