#include "ops/encodings/codes.h"

#include "ops/encodings/dpr.h"
#include "ops/encodings/ssdc.h"

namespace pal {

bool is_codes(const TensorSpec& spec) { return dpr_format(spec) || ssdc_attrs(spec); }

void read_codes(const TensorSpec& spec, const void* codes, int64_t begin, int64_t end, float* to) {
  if (const auto format = dpr_format(spec)) {
    return dpr_read(*format, spec.dtype, codes, begin, end, to);
  }
  ssdc_read(spec, codes, begin, end, to);
}

}  // namespace pal
