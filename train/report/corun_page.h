// The page of pal corun --dry-run: when which job takes its steps, and where in the pool it lies.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "memory/share/circle.h"

namespace pal {

struct CorunPage {
  std::string title;                                       // of the page: "a, b"
  std::vector<std::string> lines;                          // as the log has them
  std::vector<std::pair<std::string, std::string>> tiles;  // figures, and what they are
  std::vector<std::string> names;                          // of the jobs
  Circle circle;                    // their steps, as they come again and again
  std::vector<PoolOffsets> offset;  // by job
  int64_t pool_bytes = 0;
};
std::string corun_html(const CorunPage& page);

// Replaces the file as a whole. Error with kExitFailed when it cannot be written.
void save_corun_page(const std::filesystem::path& file, const CorunPage& page);

}  // namespace pal
