// Feature maps of a compiled step: what is read after the forward phase, by how it got there.
#pragma once
#include <cstdint>
#include <functional>

#include "memory/compiled.h"

namespace pal {

enum class MapIs : uint8_t { kept, made_again, encoded, away };

// Each storage that is read after the forward phase, once, and each copy that leaves for the host's
// memory; with the value that says so, and bytes.
void each_map(const Compiled& step,
              const std::function<void(ValueId, MapIs, int64_t bytes)>& visit);

}  // namespace pal
