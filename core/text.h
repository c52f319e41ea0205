// Numbers as text.
#pragma once
#include <string>

namespace pal {

std::string print_float(double value);  // shortest text that reads back to the same value

}  // namespace pal
