// Where the files that come with the program are: configs/ and data/samples/.
#pragma once
#include <filesystem>

namespace pal {

// The folder that holds configs/ and data/samples/: ../share/palimpsest from the running program's
// folder when the program was installed there, else the source tree it was built from. Never
// throws; whoever opens a file under it reports the file that is missing.
std::filesystem::path resource_dir();

// The same rule for a program at `executable` (an absolute path, links already followed).
std::filesystem::path resource_dir_for(const std::filesystem::path& executable);

}  // namespace pal
