// Where libraries of CUDA's are looked for, and opened.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace pal {

// In order: PAL_CUDA_LIBRARY_PATH (folders, separated by colons), the loader's own ("" in the
// list), the toolkit's, and nvidia/<wheel_folder>/lib of every Python that is installed for the
// user, for the environment, for the first python3 in PATH (a virtual environment that nobody
// activated has one of its own), or for all.
std::vector<std::filesystem::path> library_folders(const char* wheel_folder);

// Opens the first of `names` (up to a null) that is in one of these. Null: none; `tried` says
// where.
void* open_library(const char* const* names, const char* wheel_folder, std::string* tried);

}  // namespace pal
