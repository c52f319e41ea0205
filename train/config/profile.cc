// Reading and writing profiles.
#include "train/config/profile.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/paths.h"
#include "train/config/config.h"
#include "train/config/wording.h"
#include "train/config/yaml.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

// A number in the file is `scale` of the field's units.
struct NumberField {
  const char* key;
  double DeviceProfile::*field;
  double scale;
  bool required;
  double most = std::numeric_limits<double>::infinity();
};

const std::vector<NumberField>& fields() {
  static const std::vector<NumberField> table = {
      {"f32_tflops", &DeviceProfile::f32, 1e12, true},
      {"tf32_tflops", &DeviceProfile::tf32, 1e12, false},
      {"f16_tflops", &DeviceProfile::f16, 1e12, false},
      {"bf16_tflops", &DeviceProfile::bf16, 1e12, false},
      {"vector_tflops", &DeviceProfile::vector, 1e12, false},
      {"memory_gb_s", &DeviceProfile::memory, 1e9, true},
      {"cache_gb_s", &DeviceProfile::cache, 1e9, false},
      {"link_gb_s", &DeviceProfile::link, 1e9, false},
      {"link_both_gb_s", &DeviceProfile::link_both, 1e9, false},
      {"units", &DeviceProfile::units, 1, true},
      {"thread_f32_tflops", &DeviceProfile::thread_f32, 1e12, false},
      {"thread_vector_tflops", &DeviceProfile::thread_vector, 1e12, false},
      {"thread_memory_gb_s", &DeviceProfile::thread_memory, 1e9, false},
      {"thread_cache_gb_s", &DeviceProfile::thread_cache, 1e9, false},
      {"tile", &DeviceProfile::tile, 1, false},
      {"piece", &DeviceProfile::piece, 1, false},
      {"fork_us", &DeviceProfile::fork, 1e-6, false},
      {"launch_us", &DeviceProfile::launch, 1e-6, true},
      {"matmul_efficiency", &DeviceProfile::matmul_efficiency, 1, true, 1},
      {"memory_efficiency", &DeviceProfile::memory_efficiency, 1, true, 1},
      {"link_efficiency", &DeviceProfile::link_efficiency, 1, false, 1},
  };
  return table;
}

struct SizeField {
  const char* key;
  int64_t DeviceProfile::*field;
  bool required;
};
constexpr SizeField kSizes[] = {{"capacity", &DeviceProfile::capacity, true},
                                {"cache", &DeviceProfile::cache_bytes, false}};

std::vector<std::string> keys() {
  std::vector<std::string> all{"name", "measured"};
  for (const NumberField& f : fields()) all.emplace_back(f.key);
  for (const SizeField& f : kSizes) all.emplace_back(f.key);
  return all;
}

void read_value(DeviceProfile& profile, const std::string& key, const YamlNode& node,
                const std::string& where) {
  auto fail = [&](const std::string& want) {
    throw UsageError(where + ": " + key + ": expected " + want + ", got " + describe(node));
  };
  if (node.kind != YamlNode::Kind::scalar) fail("one value");
  if (key == "name") {
    profile.name = node.text;
    return;
  }
  if (key == "measured") {
    if (scalar_type(node) != ScalarType::boolean) fail("true or false");
    profile.measured = node.text[0] == 't' || node.text[0] == 'T';
    return;
  }
  for (const SizeField& f : kSizes) {
    if (key != f.key) continue;
    try {
      profile.*f.field = parse_size(node.text).bytes;
    } catch (const UsageError& e) {
      throw UsageError(where + ": " + key + ": " + e.what());
    }
    return;
  }
  for (const NumberField& f : fields()) {
    if (key != f.key) continue;
    const ScalarType type = scalar_type(node);
    const bool number = type == ScalarType::integer || type == ScalarType::number;
    const double v = number ? std::strtod(node.text.c_str(), nullptr) : -1;
    if (!(v > 0 && v <= f.most && std::isfinite(v))) {
      fail(f.most == 1 ? "a number above 0 and at most 1" : "a number above 0");
    }
    profile.*f.field = v * f.scale;
    return;
  }
  throw UsageError(where + ": " + key + ": unknown key" + did_you_mean(nearest(key, keys())) +
                   " (there are: " + comma_list(keys()) + ")");
}

DeviceProfile read_profile(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    throw UsageError(file.string() + ": cannot be read; is it a device profile?");
  }
  return parse_profile(text.str(), file.string());
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Empty where the environment names no place.
fs::path cpu_path() {
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config && *config) {
    return fs::path(config) / "palimpsest" / "cpu.yaml";
  }
  if (const char* home = std::getenv("HOME"); home && *home) {
    return fs::path(home) / ".config" / "palimpsest" / "cpu.yaml";
  }
  return {};
}

}  // namespace

DeviceProfile parse_profile(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  if (root.kind != YamlNode::Kind::map) {
    throw UsageError(file + ":1: expected a device profile, one `key: value` a line, got " +
                     describe(root));
  }
  DeviceProfile profile;
  std::set<std::string> given;
  for (size_t i = 0; i < root.keys.size(); ++i) {
    const std::string& key = root.keys[i].text;
    read_value(profile, key, root.items[i], file + ":" + std::to_string(root.keys[i].line));
    given.insert(key);
  }
  auto require_key = [&](const std::string& key) {
    if (!given.contains(key)) throw UsageError(file + ": " + key + ": missing; add it");
  };
  require_key("name");
  for (const NumberField& f : fields()) {
    if (f.required) require_key(f.key);
  }
  for (const SizeField& f : kSizes) {
    if (f.required) require_key(f.key);
  }
  // Elementwise kernels mix additions and products, which fuse less than half of the time.
  if (!given.contains("vector_tflops")) profile.vector = profile.f32 / 2;
  return profile;
}

std::string profile_text(const DeviceProfile& profile, const std::vector<std::string>& comments) {
  std::string text;
  for (const std::string& line : comments) text += "# " + line + "\n";
  text += "name: " + yaml_quoted(profile.name) + "\n";
  if (profile.measured) text += "measured: true\n";
  for (const NumberField& f : fields()) {
    const double v = profile.*f.field / f.scale;
    // Figures of four digits say all that was measured; others are kept whole.
    const std::string brief = printed("%.4g", v);
    const bool same = std::stod(brief) * f.scale == profile.*f.field;
    if (v > 0) text += std::string(f.key) + ": " + (same ? brief : printed("%.17g", v)) + "\n";
  }
  for (const SizeField& f : kSizes) {
    if (profile.*f.field > 0) {
      text += std::string(f.key) + ": " + to_string(Size{profile.*f.field}) + "\n";
    }
  }
  return text;
}

fs::path cpu_profile_path() {
  fs::path path = cpu_path();
  if (!path.empty()) return path;
  throw UsageError(
      "the measured profile of this machine has no place: neither XDG_CONFIG_HOME nor "
      "HOME is set; name a file (bench --profile --out FILE, plan --profile FILE)");
}

DeviceProfile load_profile(const std::string& name) {
  if (name == "cpu") {
    const fs::path file = cpu_profile_path();
    if (!is_file(file)) {
      throw UsageError("--profile: cpu: this machine is not measured yet (" + file.string() +
                       "); run pal bench --profile, which takes a few seconds");
    }
    return read_profile(file);
  }
  if (!name.empty() && is_file(name)) return read_profile(name);
  for (const fs::path& folder : {fs::path("configs"), resource_dir() / "configs"}) {
    for (const std::string& file : {name, name + ".yaml"}) {
      if (!name.empty() && is_file(folder / "devices" / file)) {
        return read_profile(folder / "devices" / file);
      }
    }
  }
  const std::vector<std::string> names = profile_names();
  const std::string stem = fs::path(name).stem().string();
  std::string near = nearest(stem, names);
  for (const std::string& known : names) {  // v100: v100_16
    if (!stem.empty() && known.rfind(stem, 0) == 0) near = known;
  }
  throw UsageError("--profile: there is no file '" + name + "' and no device of that name" +
                   did_you_mean(near) + " (there are: " + comma_list(names) + ")");
}

std::vector<std::string> profile_names() {
  std::set<std::string> names{"cpu"};
  for (const fs::path& folder : {fs::path("configs"), resource_dir() / "configs"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder / "devices", ignored)) {
      if (entry.path().extension() == ".yaml") names.insert(entry.path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

bool is_cpu_measured() { return is_file(cpu_path()); }

DeviceProfile default_profile() {
  return load_profile(is_cpu_measured() ? "cpu" : kDefaultProfile);
}

}  // namespace pal
