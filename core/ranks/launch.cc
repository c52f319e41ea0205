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

// How a launcher says how many processes it has started, and which of them this one is.
struct Variables {
  const char *count, *rank;
};
// Open MPI's mpirun; MPICH's and Intel's (Hydra), and srun --mpi=pmi2.
constexpr Variables kLaunchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                    {"PMI_SIZE", "PMI_RANK"}};
// Hydra's for the processes of one machine alone, set also where it tells MPI nothing else.
constexpr Variables kHydraHere{"MPI_LOCALNRANKS", "MPI_LOCALRANKID"};
constexpr const char* kSlurmTask = "SLURM_PROCID";

std::optional<int> number(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return {};
  int value = 0;
  const char* end = text + std::strlen(text);
  if (std::from_chars(text, end, value).ptr != end || value < 0) return {};
  return value;
}

// srun sets these for the tasks of a step. In a batch script, which is one process whatever
// SLURM_NTASKS says, there is no step.
std::optional<Launch> slurm_step() {
  const std::optional<int> rank = number(kSlurmTask);
  if (!rank) return {};
  const char* count = "SLURM_STEP_NUM_TASKS";
  std::optional<int> ranks = number(count);
  if (!ranks && std::getenv("SLURM_STEP_ID")) ranks = number(count = "SLURM_NTASKS");
  if (!ranks || *ranks <= 1) return {};
  return Launch{count, *ranks, *rank, std::getenv("PMIX_RANK") != nullptr};
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

void check_reachable(const Launch& launch) {
  if (launch.reachable) return;
  const std::string says = "ranks: " + launch.by + " says that this is one of " +
                           std::to_string(launch.ranks) + " processes, and ";
  if (launch.by.starts_with("SLURM")) {
    throw UsageError(says +
                     "Slurm has not told MPI of the others; start them with srun --mpi=pmix, or "
                     "one process with srun --ntasks=1");
  }
  throw UsageError(says +
                   "its launcher has not told MPI of the others; start them with the mpirun of the "
                   "MPI that this build was made with");
}

}  // namespace

std::optional<Launch> launch_at_hand() {
  for (const Variables& each : kLaunchers) {
    const std::optional<int> ranks = number(each.count);
    if (ranks && *ranks > 0) return Launch{each.count, *ranks, number(each.rank).value_or(0)};
  }
  if (std::optional<Launch> step = slurm_step()) return step;
  const std::optional<int> here = number(kHydraHere.count);
  if (!here || *here <= 1) return {};
  return Launch{kHydraHere.count, *here, number(kHydraHere.rank).value_or(0), false};
}

std::shared_ptr<Group> open_group(const Launch& launch) {
  check_reachable(launch);
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
    auto* const open = reinterpret_cast<Open*>(dlsym(library, PAL_OPEN_GROUP));
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
