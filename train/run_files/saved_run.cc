// Finding the files of a run.
#include "train/run_files/saved_run.h"

#include <algorithm>

#include "core/error.h"

namespace pal {

namespace fs = std::filesystem;

SavedRun find_saved_run(const fs::path& path) {
  std::error_code ignored;
  const bool file = path.extension() == ".safetensors" && !fs::is_directory(path, ignored);
  SavedRun run{file && path.has_parent_path() ? path.parent_path() : file ? "." : path, {}};
  if (file && !fs::exists(path, ignored)) throw UsageError(path.string() + ": no such file");
  if (!fs::is_directory(run.folder, ignored)) {
    throw UsageError(run.folder.string() + ": no such folder; name the folder of a run");
  }
  for (const char* name : {"last.safetensors", "best.safetensors"}) {
    if (fs::exists(run.folder / name, ignored)) run.weights = run.folder / name;
  }
  if (file) run.weights = path;
  if (run.weights.empty()) {
    throw UsageError(run.folder.string() +
                     ": has neither best.safetensors nor last.safetensors; "
                     "name the folder of a run that has saved a checkpoint");
  }
  return run;
}

std::vector<std::string> split_models(const std::string& folders) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= folders.size();) {
    const size_t end = std::min(folders.find(',', at), folders.size());
    out.push_back(folders.substr(at, end - at));
    if (out.back().empty()) {
      throw UsageError("--model: '" + folders + "' lacks a folder's name; write it as DIR,DIR");
    }
    at = end + 1;
  }
  return out;
}

}  // namespace pal
