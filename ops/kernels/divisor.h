// Division by a number that all threads of a launch divide by: a product and a shift (Granlund and
// Montgomery 1994, figure 4.1, for numerators below 2^31).
#pragma once
#include <bit>
#include <cstdint>

#include "core/host_device.h"

namespace pal {

class Divisor {
 public:
  explicit Divisor(int64_t n) : n_(n) {
    if (n < 2 || n > INT32_MAX) return;  // by itself then
    const int power = 31 + int(std::bit_width(uint64_t(n - 1)));
    multiplier_ = uint32_t(((uint64_t{1} << power) + uint64_t(n) - 1) / uint64_t(n));
    shift_ = power - 32;
  }
  // i / n and i % n, of i >= 0.
  PAL_HD int64_t quotient(int64_t i) const {
    if (multiplier_ != 0 && uint64_t(i) >> 31 == 0) {
      return int64_t((uint64_t(uint32_t(i)) * multiplier_ >> 32) >> shift_);
    }
    return i / n_;
  }
  PAL_HD int64_t rest(int64_t i) const { return i - quotient(i) * n_; }
  // i = q n + r.
  struct Parts {
    int64_t q, r;
  };
  PAL_HD Parts parts(int64_t i) const {
    const int64_t q = quotient(i);
    return {q, i - q * n_};
  }

 private:
  int64_t n_;
  uint32_t multiplier_ = 0;
  int shift_ = 0;
};

}  // namespace pal
