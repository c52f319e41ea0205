// Whether this process is one of several that a launcher (mpirun, srun) has started, and how it
// reaches the others.
#pragma once
#include <memory>
#include <optional>

#include "core/ranks/group.h"

namespace pal {

// What a launcher's variables say. MPI itself says the rest.
struct Launch {
  std::string by;  // the variable: OMPI_COMM_WORLD_SIZE
  int ranks = 1;
  int rank = 0;           // as far as it is said
  bool reachable = true;  // whether the launcher has told MPI how to find the others
};
// None: started by hand, or as the only task of a Slurm step.
std::optional<Launch> launch_at_hand();

// The ranks of this launch, by the plug-in libpal_mpi.so beside the program or in the folder that
// PAL_PLUGINS names. UsageError where it is not there or cannot be loaded, with what to install, or
// where MPI could not find the others: each would be a run of its own.
// The process's last act is to leave the group: it is to be destroyed before main() ends.
std::shared_ptr<Group> open_group(const Launch& launch);

}  // namespace pal
