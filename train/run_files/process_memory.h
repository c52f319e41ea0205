// What the operating system says of this process's memory.
#pragma once
#include <cstdint>
#include <optional>

namespace pal {

// The most bytes that were in memory at once since the process began: its own and its libraries',
// and pages of files that are mapped. Nothing where the system does not say.
std::optional<int64_t> process_peak_bytes();

}  // namespace pal
