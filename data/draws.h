// Random numbers on the processor that depend on (seed, stream) alone, the same on every machine.
#pragma once
#include <cmath>
#include <cstdint>

#include "core/philox.h"

namespace pal {

class Draws {
 public:
  // `what` tells the users of one seed and stream apart.
  Draws(uint64_t seed, uint64_t stream, uint32_t what)
      : key_{seed, uint32_t(stream), uint32_t(stream >> 32), what} {}

  uint32_t bits() {
    if (used_ == 4) block_ = draw(key_, next_++), used_ = 0;
    return block_.x[used_++];
  }
  double uniform() { return (double(bits()) + 0.5) * 0x1p-32; }  // in (0, 1)
  // In [0, n), n > 0.
  int64_t below(int64_t n) { return int64_t(uniform() * double(n)); }
  double normal() {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  RandomKey key_;
  uint64_t next_ = 0;
  int used_ = 4;
  Philox4 block_{};
};

}  // namespace pal
