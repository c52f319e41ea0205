// Which version of the program this is, and which build of it.
#pragma once
#include <string>

namespace pal {

inline constexpr const char* kVersion = "0.1.0";

// The linker's number for this program's contents, in hexadecimal digits; "" where it gave none.
std::string build_id();

}  // namespace pal
