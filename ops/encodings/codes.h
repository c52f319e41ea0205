// Encoded feature maps for kernels that take the codes of an operand in place of its values
// (OpDef::reads_codes), and make the values a part at a time.
#pragma once
#include <cstdint>

#include "core/spec.h"

namespace pal {

// In a precision format (ops/encodings/dpr.h) or sparse (ops/encodings/ssdc.h).
bool is_codes(const TensorSpec& spec);
// Elements [begin, end) as f32: what dpr_decode or ssdc_decode would give. On the calling thread.
void read_codes(const TensorSpec& spec, const void* codes, int64_t begin, int64_t end, float* to);

}  // namespace pal
