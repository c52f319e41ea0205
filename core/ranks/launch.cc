// Launchers' variables, and the plug-in that speaks MPI.
#include "core/ranks/launch.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlugin = "libpal_mpi.so";

// Open MPI's mpirun, MPICH's and Intel's (Hydra), and srun, which sets its own also where it starts
// one task.
constexpr const char* kCounts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

// srun's variables are inherited by what a batch script runs without srun: then there is one step
// and no task of it.
bool is_started(const char* count) {
  return std::strcmp(count, "SLURM_NTASKS") != 0 ||
         (std::getenv("SLURM_PROCID") && std::getenv("PMIX_RANK"));
}

std::vector<fs::path> plugin_folders() {
  std::vector<fs::path> folders;
  if (const char* named = std::getenv("PAL_PLUGINS")) folders.emplace_back(named);
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return folders;
  folders.push_back(program.parent_path());
  folders.push_back(program.parent_path().parent_path() / "lib" / "palimpsest");
  return folders;
}

}  // namespace

std::optional<Launch> launch_at_hand() {
  for (const char* variable : kCounts) {
    const char* text = std::getenv(variable);
    if (!text || !is_started(variable)) continue;
    int ranks = 0;
    const char* end = text + std::strlen(text);
    if (std::from_chars(text, end, ranks).ptr == end && ranks > 0) return Launch{variable, ranks};
  }
  return {};
}

std::shared_ptr<Group> open_group(const Launch& launch) {
  std::string tried;
  for (const fs::path& folder : plugin_folders()) {
    const fs::path file = folder / kPlugin;
    tried += (tried.empty() ? "" : ", ") + file.string();
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    // Libraries that MPI loads itself look for its symbols among all.
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) throw UsageError(std::string("ranks: ") + dlerror());
    using Open = Group*();
    auto* const open = reinterpret_cast<Open*>(dlsym(library, "pal_open_group"));
    if (!open) throw UsageError(file.string() + ": is of another version of pal; build it anew");
    return std::shared_ptr<Group>(open());
  }
  throw UsageError("ranks: " + launch.by + " says that this is one of " +
                   std::to_string(launch.ranks) + " processes, and this build has no MPI (no " +
                   tried +
                   "); install libopenmpi-dev and openmpi-bin and build again, or start one "
                   "process");
}

}  // namespace pal
