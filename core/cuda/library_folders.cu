// Looking through the machine's folders for those that may have CUDA's libraries.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/cuda/library_folders.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> split_path(const char* text) {
  std::vector<fs::path> out;
  const std::string all = text ? text : "";
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(':', begin), all.size());
    if (end > begin) out.emplace_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// nvidia/<wheel_folder>/lib of every Python that is installed for the user, the environment, or
// all.
std::vector<fs::path> wheel_folders(const char* wheel_folder) {
  std::vector<fs::path> roots;
  if (const char* home = std::getenv("HOME")) roots.push_back(fs::path(home) / ".local/lib");
  if (const char* env = std::getenv("VIRTUAL_ENV")) roots.push_back(fs::path(env) / "lib");
  if (const char* env = std::getenv("CONDA_PREFIX")) roots.push_back(fs::path(env) / "lib");
  for (const fs::path& folder : split_path(std::getenv("PATH"))) {
    std::error_code none;
    if (!fs::exists(folder / "python3", none)) continue;
    // A virtual environment's python3 is a link, whose folder is the environment's.
    roots.push_back(folder.parent_path() / "lib");
    break;
  }
  roots.insert(roots.end(), {"/usr/local/lib", "/usr/lib"});
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const fs::path& root : roots) {
    for (const auto& entry : fs::directory_iterator(root, ignored)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        // "cu13" holds all libraries of CUDA 13's wheels; earlier ones have a folder each.
        for (const char* folder : {"cu13", wheel_folder}) {
          const fs::path lib = entry.path() / packages / "nvidia" / folder / "lib";
          if (fs::is_directory(lib, ignored)) out.push_back(lib);
        }
      }
    }
  }
  return out;
}

}  // namespace

std::vector<fs::path> library_folders(const char* wheel_folder) {
  std::vector<fs::path> folders = split_path(std::getenv("PAL_CUDA_LIBRARY_PATH"));
  folders.push_back("");  // as the loader finds it
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(fs::path(home) / "lib64");
  folders.push_back("/usr/local/cuda/lib64");
  for (const fs::path& folder : wheel_folders(wheel_folder)) folders.push_back(folder);
  return folders;
}

void* open_library(const char* const* names, const char* wheel_folder, std::string* tried) {
  for (const fs::path& folder : library_folders(wheel_folder)) {
    for (const char* const* name = names; *name; ++name) {
      const fs::path file = folder.empty() ? fs::path(*name) : folder / *name;
      if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    if (tried)
      *tried += (tried->empty() ? "" : ", ") + (folder.empty() ? "loader" : folder.string());
  }
  return nullptr;
}

}  // namespace pal
