// Maps whose nonzeros a step counts, for sparse forms with room for as many.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/program.h"
#include "ops/encodings/ssdc_layout.h"

namespace pal {

// The step that also counts the nonzeros of every map that could be kept sparse: read later, itself
// or in the form that it has here.
Program count_nonzeros_of_maps(const Program& program);

// A map whose nonzeros a step counts.
struct CountedMap {
  std::string output;  // i32, of which the first is the count
  ValueId origin;
  std::string layer;  // layer_of() its producer
  int64_t elements;
  DType type;
  std::optional<SsdcAttrs> sparse;  // how it is kept; none: dense
};
std::vector<CountedMap> counted_maps(const Program& program);
inline constexpr const char* kOverflowOutput = "overflow";  // a gate (ops/kernels/gate.h)

// The output that counts a value.
std::string count_name(const Program& program, ValueId value);

}  // namespace pal
