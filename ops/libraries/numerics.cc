// What oneDNN says of itself.
#include "ops/libraries/numerics.h"

#include <cstdio>

#include "oneapi/dnnl/dnnl.hpp"

namespace pal {

std::string cpu_numerics() {
  const dnnl_version_t* version = dnnl_version();
  char text[96];
  std::snprintf(text, sizeof text, "oneDNN %d.%d.%d, instruction set 0x%x", version->major,
                version->minor, version->patch, unsigned(dnnl::get_effective_cpu_isa()));
  return text;
}

}  // namespace pal
