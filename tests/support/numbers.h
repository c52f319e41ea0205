// Numbers that look random and are the same everywhere: from -1.43 to 1.43.
#pragma once
#include <cstdint>
#include <vector>

namespace pal::test {

inline std::vector<float> numbers(int64_t n, int seed) {
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(float((i * 7919 + seed * 104729) % 2003 - 1001) / 700);
  return out;
}

}  // namespace pal::test
