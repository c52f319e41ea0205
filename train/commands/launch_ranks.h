// pal train --ranks N: mpirun starts N of this program.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace pal {

// Runs this program's `arguments` as so many ranks of this machine, and waits for them. A signal
// that asks runs to stop goes to all of them in a form that mpirun passes on (it would kill them
// seconds after SIGTERM). Returns their exit code. UsageError where there is no mpirun, Error where
// it did not end by itself after all ranks had.
int launch_ranks(int64_t ranks, const std::vector<std::string>& arguments);

}  // namespace pal
