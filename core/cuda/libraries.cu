// Opening the libraries, by name and then by place.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/accelerator.h"
#include "core/cuda/libraries.h"

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

template <class F> void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(function_of(library, "cuBLASLt", name));
}

CublasLt load_cublas_lt() {
  static constexpr const char* names[] = {"libcublasLt.so.13", "libcublasLt.so.12", nullptr};
  std::string tried;
  void* library = open_library(names, "cublas", &tried);
  if (!library) {
    throw DeviceError("cuBLASLt was not found (" + tried +
                      "): install the CUDA toolkit or PyTorch's nvidia-cublas wheel, or name its "
                      "folder in PAL_CUDA_LIBRARY_PATH");
  }
  CublasLt t{};
  find(library, "cublasLtCreate", t.create);
  find(library, "cublasLtDestroy", t.destroy);
  find(library, "cublasLtGetVersion", t.version);
  find(library, "cublasLtMatmulDescCreate", t.desc_create);
  find(library, "cublasLtMatmulDescDestroy", t.desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", t.desc_set);
  find(library, "cublasLtMatrixLayoutCreate", t.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", t.layout_destroy);
  find(library, "cublasLtMatrixLayoutSetAttribute", t.layout_set);
  find(library, "cublasLtMatmulPreferenceCreate", t.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", t.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", t.preference_set);
  find(library, "cublasLtMatmulAlgoGetHeuristic", t.heuristic);
  find(library, "cublasLtMatmul", t.matmul);
  return t;
}

}  // namespace

void* open_library(const char* const* names, const char* wheel_folder, std::string* tried) {
  std::vector<fs::path> folders = split_path(std::getenv("PAL_CUDA_LIBRARY_PATH"));
  folders.push_back("");  // as the loader finds it
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(fs::path(home) / "lib64");
  folders.push_back("/usr/local/cuda/lib64");
  for (const fs::path& folder : wheel_folders(wheel_folder)) folders.push_back(folder);
  for (const fs::path& folder : folders) {
    for (const char* const* name = names; *name; ++name) {
      const fs::path file = folder.empty() ? fs::path(*name) : folder / *name;
      if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    if (tried)
      *tried += (tried->empty() ? "" : ", ") + (folder.empty() ? "loader" : folder.string());
  }
  return nullptr;
}

void* function_of(void* library, const char* library_name, const char* name) {
  void* function = dlsym(library, name);
  if (!function) throw DeviceError(std::string(library_name) + " is too old: it has no " + name);
  return function;
}

const CublasLt& cublas_lt() {
  static const CublasLt table = load_cublas_lt();  // stays open to the program's end
  return table;
}

}  // namespace pal
