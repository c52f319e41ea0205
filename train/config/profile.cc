// Reading and writing profiles.
#include "train/config/profile.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/error.h"
#include "train/config/config.h"
#include "train/config/figures.h"
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
      {"graph_kernel_us", &DeviceProfile::graph_kernel, 1e-6, false},
      {"stream_kernel_us", &DeviceProfile::stream_kernel, 1e-6, false},
      {"matmul_efficiency", &DeviceProfile::matmul_efficiency, 1, true, 1},
      {"memory_efficiency", &DeviceProfile::memory_efficiency, 1, true, 1},
      {"link_efficiency", &DeviceProfile::link_efficiency, 1, false, 1},
      {"busy_w", &DeviceProfile::busy, 1, false},
      {"idle_w", &DeviceProfile::idle, 1, false},
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

std::vector<FigureKey> keys_of(DeviceProfile& profile) {
  std::vector<FigureKey> all{text_key("name", true, profile.name),
                             truth_key("measured", false, profile.measured)};
  for (const NumberField& f : fields()) {
    all.push_back(number_key(f.key, f.required, profile.*f.field, f.scale, f.most));
  }
  for (const SizeField& f : kSizes) all.push_back(size_key(f.key, f.required, profile.*f.field));
  return all;
}

constexpr const char* kDeviceFolder = "devices";
constexpr const char* kDeviceWords = "a device profile";

DeviceProfile read_profile(const FiguresFile& file) {
  DeviceProfile profile = parse_profile(file.text, file.path.string());
  profile.elsewhere = !profile.measured;
  return profile;
}

// What links are, for profile_text: a comment, since they are no part of the device.
std::string comment_of(const Links& links) {
  std::string text = printed("# %lld ranks, %lld a node:", static_cast<long long>(links.ranks),
                             static_cast<long long>(links.per_node));
  for (const Link* link : {&links.inside, &links.between}) {
    text += " " + yaml_quoted(link->name) +
            printed(" %.17g %.17g %.17g", link->rate, link->latency, link->efficiency);
  }
  return text + "\n";
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

DeviceProfile parse_profile(const std::string& text, const std::string& file) {
  DeviceProfile profile;
  const std::vector<std::string> given = read_figures(text, file, kDeviceWords, keys_of(profile));
  // Elementwise kernels mix additions and products, which fuse less than half of the time.
  if (std::find(given.begin(), given.end(), "vector_tflops") == given.end()) {
    profile.vector = profile.f32 / 2;
  }
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
  if (profile.links) text += comment_of(*profile.links);
  return text;
}

fs::path cpu_profile_path() {
  fs::path path = measured_path("cpu.yaml");
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
    return read_profile(open_figures(file, kDeviceWords));
  }
  const FiguresFile file = find_figures(kDeviceFolder, name, kDeviceWords);
  if (file.path.empty()) no_figures("--profile", name, "device", profile_names());
  return read_profile(file);
}

DeviceProfile priced_as(DeviceProfile profile, bool tf32) {
  if (!tf32)
    profile.tf32 = 0;
  else if (profile.tf32 == 0)
    profile.tf32 = profile.bf16 / 2;
  return profile;
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names = figure_names(kDeviceFolder);
  names.emplace_back("cpu");
  std::sort(names.begin(), names.end());
  return names;
}

bool is_cpu_measured() { return is_file(measured_path("cpu.yaml")); }

DeviceProfile default_profile() {
  DeviceProfile profile = load_profile(is_cpu_measured() ? "cpu" : kDefaultProfile);
  profile.elsewhere = false;
  return profile;
}

}  // namespace pal
