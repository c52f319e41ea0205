// Which of a library's kernels the processor's results come from.
#pragma once
#include <string>

namespace pal {

// "oneDNN 2.6.3, instruction set 0x..": where it differs, sums may differ in their last bits.
std::string cpu_numerics();

}  // namespace pal
