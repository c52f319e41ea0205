// Files of figures, one `key: value` a line: device profiles, links. What they share: units,
// refusals that name the line, and the folders below configs/ in which they have names.
#pragma once
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "train/config/yaml.h"

namespace pal {

// A key of such a file. `take` gets its value; it throws UsageError with what was expected.
struct FigureKey {
  std::string key;
  bool required;
  std::function<void(const YamlNode&)> take;
};

// A number above 0 and at most `most`, of which one is `scale` of the field's units.
FigureKey number_key(const char* key, bool required, double& field, double scale,
                     double most = std::numeric_limits<double>::infinity());
FigureKey text_key(const char* key, bool required, std::string& field);
FigureKey size_key(const char* key, bool required, int64_t& field);  // bytes, e.g. 11GiB
FigureKey truth_key(const char* key, bool required, bool& field);

// Reads text into the keys' fields; returns the keys that it has. `what` is what such a file is, "a
// device profile". UsageError names the file, the line and the key.
std::vector<std::string> read_figures(const std::string& text, const std::string& file,
                                      const std::string& what, const std::vector<FigureKey>& keys);

// Kinds of files are folders of configs/: "devices". The text of the file that `name` says: a path,
// or a name in configs/KIND of the working directory, else of the program's own; and that file. The
// second is empty where there is none.
struct FiguresFile {
  std::string text;
  std::filesystem::path path;
};
FiguresFile find_figures(const std::string& kind, const std::string& name, const std::string& what);
// The same of a path.
FiguresFile open_figures(const std::filesystem::path& path, const std::string& what);
// A file of what was measured on this machine, in the user's configuration folder; empty where the
// environment names no place.
std::filesystem::path measured_path(const std::string& file);
// The names that there are, in order.
std::vector<std::string> figure_names(const std::string& kind);
// UsageError for one there is not: "FLAG: there is no file 'x' and no WHAT of that name", the
// nearest of `names` (one that it begins, before any), and all of them.
[[noreturn]] void no_figures(const std::string& flag, const std::string& name,
                             const std::string& what, const std::vector<std::string>& names);

}  // namespace pal
