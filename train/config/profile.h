// Device profiles as files: the cards in configs/devices, and this machine's processor as
// `pal bench --profile` measured it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "memory/price/predict.h"

namespace pal {

// The profile used where none is named and this machine's is not measured: the papers' card.
inline constexpr const char* kDefaultProfile = "rtx2080ti";

// A path of a .yaml file, a name in configs/devices (of the working directory, else the program's
// own), or `cpu`: this machine's. What was not measured is elsewhere. UsageError lists the names
// there are, or names the line at fault.
DeviceProfile load_profile(const std::string& name_or_path);
// The profile as it prices products of f32 where they may be rounded to TF32 (train.precision): at
// tf32_tflops, or half of bf16's peak, as on all such cards; and where they may not.
DeviceProfile priced_as(DeviceProfile profile, bool tf32);
// What prices a step that runs here: `cpu` where it is measured, else kDefaultProfile.
DeviceProfile default_profile();

// Whether `cpu` is measured; and the names there are.
bool is_cpu_measured();
std::vector<std::string> profile_names();

// The profile in the file's text; `file` only names it in errors.
DeviceProfile parse_profile(const std::string& text, const std::string& file);
// Text that parse_profile reads back equal; `comments` are lines for its head. Links, which are no
// part of a device, are one more comment, so that texts differ where they do.
std::string profile_text(const DeviceProfile& profile, const std::vector<std::string>& comments);

// Where `cpu` is: $XDG_CONFIG_HOME/palimpsest/cpu.yaml, or ~/.config/palimpsest/cpu.yaml.
// UsageError when neither variable is set.
std::filesystem::path cpu_profile_path();

}  // namespace pal
