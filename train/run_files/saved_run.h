// The folders of runs that commands are given: which file holds the weights.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace pal {

struct SavedRun {
  std::filesystem::path folder, weights;
};
// Of a run's folder best.safetensors, or last.safetensors where there is no best; or the
// .safetensors file in such a folder that is named. UsageError when there is none.
SavedRun find_saved_run(const std::filesystem::path& path);

// --model DIR[,DIR...] in parts.
std::vector<std::string> split_models(const std::string& folders);

}  // namespace pal
