// Samples of a validation.
#include "train/loop/task.h"

#include <algorithm>

namespace pal {

std::vector<size_t> sample_rows(size_t count) {
  const size_t samples = std::min(kSamples, count);
  std::vector<size_t> rows;
  for (size_t i = 0; i < samples; ++i) {
    rows.push_back(samples == 1 ? 0 : i * (count - 1) / (samples - 1));
  }
  return rows;
}

}  // namespace pal
