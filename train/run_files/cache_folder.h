// Where files lie that any run of this machine may find, and do without.
#pragma once
#include <filesystem>

namespace pal {

// $XDG_CACHE_HOME/palimpsest, or ~/.cache/palimpsest; empty where neither is named.
std::filesystem::path cache_folder();

}  // namespace pal
