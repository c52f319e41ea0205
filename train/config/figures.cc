// Reading files of figures, and finding them.
#include "train/config/figures.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/paths.h"
#include "train/config/config.h"
#include "train/config/wording.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_value(const std::string& want, const YamlNode& node) {
  throw UsageError("expected " + want + ", got " + describe(node));
}

std::vector<fs::path> folders_of(const std::string& kind) {
  return {fs::path("configs") / kind, resource_dir() / "configs" / kind};
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

FigureKey number_key(const char* key, bool required, double& field, double scale, double most) {
  return {key, required, [&field, scale, most](const YamlNode& node) {
            const ScalarType type = scalar_type(node);
            const bool number = type == ScalarType::integer || type == ScalarType::number;
            const double v = number ? std::strtod(node.text.c_str(), nullptr) : -1;
            // With room for sums and products of such, and to be printed in four digits.
            constexpr double kMost = 1e300;
            const double scaled = v * scale;
            if (!(v <= std::min(most, kMost) && scaled <= kMost && scaled >= 1 / kMost)) {
              refuse_value(most == 1 ? "a number above 0 and at most 1" : "a number above 0", node);
            }
            field = scaled;
          }};
}

FigureKey text_key(const char* key, bool required, std::string& field) {
  return {key, required, [&field](const YamlNode& node) { field = node.text; }};
}

FigureKey size_key(const char* key, bool required, int64_t& field) {
  return {key, required, [&field](const YamlNode& node) { field = parse_size(node.text).bytes; }};
}

FigureKey truth_key(const char* key, bool required, bool& field) {
  return {key, required, [&field](const YamlNode& node) {
            if (scalar_type(node) != ScalarType::boolean) refuse_value("true or false", node);
            field = node.text[0] == 't' || node.text[0] == 'T';
          }};
}

std::vector<std::string> read_figures(const std::string& text, const std::string& file,
                                      const std::string& what, const std::vector<FigureKey>& keys) {
  const YamlNode root = parse_yaml(text, file);
  if (root.kind != YamlNode::Kind::map) {
    throw UsageError(file + ":1: expected " + what + ", one `key: value` a line, got " +
                     describe(root));
  }
  std::vector<std::string> given;
  for (size_t i = 0; i < root.keys.size(); ++i) {
    const std::string& key = root.keys[i].text;
    const std::string where = file + ":" + std::to_string(root.keys[i].line) + ": " + key + ": ";
    std::vector<std::string> names;
    const FigureKey* found = nullptr;
    for (const FigureKey& each : keys) {
      names.push_back(each.key);
      if (each.key == key) found = &each;
    }
    try {
      if (root.items[i].kind != YamlNode::Kind::scalar) refuse_value("one value", root.items[i]);
      if (found) found->take(root.items[i]);
    } catch (const UsageError& error) {
      throw UsageError(where + error.what());
    }
    if (!found) {
      throw UsageError(where + "unknown key" + did_you_mean(nearest(key, names)) +
                       " (there are: " + comma_list(names) + ")");
    }
    given.push_back(key);
  }
  const std::set<std::string> all(given.begin(), given.end());
  for (const FigureKey& each : keys) {
    if (each.required && !all.contains(each.key)) {
      throw UsageError(file + ": " + each.key + ": missing; add it");
    }
  }
  return given;
}

FiguresFile open_figures(const fs::path& path, const std::string& what) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    throw UsageError(path.string() + ": cannot be read; is it " + what + "?");
  }
  return {text.str(), path};
}

FiguresFile find_figures(const std::string& kind, const std::string& name,
                         const std::string& what) {
  if (name.empty()) return {};
  if (is_there(name)) return open_figures(name, what);
  for (const fs::path& folder : folders_of(kind)) {
    for (const std::string& file : {name, name + ".yaml"}) {
      if (is_there(folder / file)) return open_figures(folder / file, what);
    }
  }
  return {};
}

fs::path measured_path(const std::string& file) {
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config && *config) {
    return fs::path(config) / "palimpsest" / file;
  }
  if (const char* home = std::getenv("HOME"); home && *home) {
    return fs::path(home) / ".config" / "palimpsest" / file;
  }
  return {};
}

std::vector<std::string> figure_names(const std::string& kind) {
  std::set<std::string> names;
  for (const fs::path& folder : folders_of(kind)) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".yaml") names.insert(entry.path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

void no_figures(const std::string& flag, const std::string& name, const std::string& what,
                const std::vector<std::string>& names) {
  const std::string stem = fs::path(name).stem().string();
  std::string near = nearest(stem, names);
  for (const std::string& known : names) {  // v100: v100_16
    if (!stem.empty() && known.rfind(stem, 0) == 0) near = known;
  }
  throw UsageError(flag + ": there is no file '" + one_line(name) + "' and no " + what +
                   " of that name" + did_you_mean(near) + " (there are: " + comma_list(names) +
                   ")");
}

}  // namespace pal
