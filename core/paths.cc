// Finds the program's own files from where the program lies, so that an installation can be moved.
#include "core/paths.h"

#include <system_error>

namespace pal {

namespace fs = std::filesystem;

fs::path resource_dir_for(const fs::path& executable) {
  fs::path installed = executable.parent_path().parent_path() / "share" / "palimpsest";
  std::error_code ignored;  // an unreadable folder is as good as none
  if (fs::is_directory(installed, ignored)) return installed;
  return PAL_SOURCE_DIR;  // set by CMakeLists.txt for this file alone
}

fs::path resource_dir() {
  std::error_code failed;
  // The kernel's link is the program's real path, whichever name or link it was called by.
  const fs::path executable = fs::read_symlink("/proc/self/exe", failed);
  return failed ? fs::path(PAL_SOURCE_DIR) : resource_dir_for(executable);
}

}  // namespace pal
