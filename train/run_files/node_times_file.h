// The times of nodes that a run has measured, in its folder: what a resumed run plans by again.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "memory/price/node_times.h"

namespace pal {

// As text that parse_node_times() reads back equal.
std::string text_of(const NodeTimes& times, const std::string& device);
// Error where the text is torn, or holds what is no time. `device`: where that is to be the same.
NodeTimes parse_node_times(const std::string& text, const std::string& device = "");

// `device`: which it is, with what decides how fast: "cpu, 2 threads". Replaced as a whole. Error
// with kExitFailed when it cannot be written.
void save_node_times(const std::filesystem::path& file, const std::string& device,
                     const NodeTimes& times);
// Nothing where there is no file; nothing, and why in `*said`, where it is torn, of another device,
// or holds what is no time.
std::optional<NodeTimes> load_node_times(const std::filesystem::path& file,
                                         const std::string& device, std::string* said);

}  // namespace pal
