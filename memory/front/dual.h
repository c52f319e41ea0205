// Prices that bring a step down to a number of bytes: Lagrange multipliers of "at most so many
// bytes alive", one for each piece of the step.
//
// An iterate cuts by its prices (memory/recompute/priced.h), inserts the clones, and counts what is
// then alive at every position. Where that is above the target, the price rises; only pieces that
// some iterate violated have one. Two things are looked for by turns: the shape of the prices,
// which moves towards the pieces that are violated most, and their height, by halving the interval
// between one that was too low and one that was high enough. The next target begins with the last
// one's shape and height.
//
// An iterate is judged by its program with early updates, without the passes that follow; what
// these save of the step as it was recorded is taken off all alike.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "memory/compiled.h"
#include "memory/recompute/step_view.h"

namespace pal {

struct DualIterate {
  Prices prices;
  int64_t bytes = 0;  // alive at the peak
  double ms = 0;      // predicted
};

class Dual {
 public:
  // `program`: recorded, with origins.
  Dual(const Program& program, const CompileOptions& options, const DeviceProfile& device);

  int64_t plain_bytes() const { return plain_.bytes; }
  // Iterates for at most `target` bytes, by the count of plain_bytes(). Targets descend.
  std::vector<DualIterate> iterate(int64_t target, int iterations);

 private:
  using ByPiece = std::array<double, kMostPieces>;
  struct Judged {
    int64_t bytes = 0;
    double ms = 0;
    ByPiece alive{};  // the most bytes of a piece
  };
  Judged judge(const Program& program) const;
  Prices prices() const;
  size_t piece_of(Position position) const;
  void lean_towards(const Judged& judged, int64_t target);

  const CompileOptions& options_;
  const DeviceProfile& device_;
  const Program parts_;
  const StepView view_;
  const Position positions_;  // in all
  Judged plain_;
  ByPiece shape_{};    // part of the price; they sum to 1, once some piece was violated
  double height_ = 0;  // ms for a byte that is alive all the time
};

}  // namespace pal
