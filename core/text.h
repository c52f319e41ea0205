// Numbers as text.
#pragma once
#include <cstdint>
#include <string>

namespace pal {

std::string print_float(double value);  // shortest text that reads back to the same value
// "1.42 GB", "12.0 MB", "640 B": powers of 1000, as the papers count.
std::string format_bytes(int64_t bytes);

}  // namespace pal
